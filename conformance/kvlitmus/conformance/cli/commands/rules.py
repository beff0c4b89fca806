"""``kvlitmus rules``: lists rules, or explains some."""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from kvlitmus.conformance.cli.commands import ledger
from kvlitmus.conformance.cli.commands.common import UsageError, pick_rules, split
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.report import document, terminal
from kvlitmus.conformance.report.markdown import escape
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.run.verdicts import of_pools
from kvlitmus.conformance.support.text import closest
from kvlitmus.spec.law.facts import FACTS, INPUTS, worked_out_from
from kvlitmus.spec.law.rule import Rule, in_force
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.stand_ins import meant_by, standing_for

SHOWN = 6
"""So many litmus tests of a rule are told."""


def main(args: argparse.Namespace) -> int:
    """List or explain; always 0, unless a name stands for nothing."""
    if args.ledger:
        return ledger.main(args)
    chosen = list(named(split(args.names)).values())
    if args.json:
        print(document.dump([plain(rule) for rule in chosen]), end="")
    elif args.markdown:
        print("\n".join(markdown(chosen)))
    else:
        style = style_of(sys.stdout, args.color)
        exact = {in_force(word.upper()) for word in args.names} & {rule.id for rule in chosen}
        lines = explained(chosen, style) if exact else listed(chosen, style)
        for line in lines:
            print(line)
    return 0


def named(words: Sequence[str]) -> dict[str, Rule]:
    """The rules and packs that were named, or all."""
    rules = all_rules()
    packs = list(dict.fromkeys(rule.pack for rule in rules.values()))
    ids = [word for word in words if word.lower() not in packs]
    for word in ids:
        if word.upper() not in rules and "-" not in word:
            raise UsageError(f"there is no rule or pack {word!r}{closest(word, [*packs, *rules])}")
    return pick_rules(ids, [word for word in words if word.lower() in packs])


def plain(rule: Rule) -> dict[str, Any]:
    """A rule as plain data."""
    return {
        "id": rule.id,
        "title": rule.title,
        "text": rule.text,
        "strength": rule.strength.value,
        "kind": rule.kind.value,
        "pack": rule.pack,
        "on": list(rule.on),
        "depth": rule.depth,
        "said_by": {one.rule: one.how for one in standing_for(rule.id)},
        "facts": {name: FACTS[name].meaning for name in rule.facts},
        "premise": rule.premise,
        "where": place_of(rule.predicate),
        "worked_out": {
            name: {
                **FACTS[name]._asdict(),
                "compute": place_of(FACTS[name].compute),
                "ports": sorted(FACTS[name].ports),
            }
            for name in worked_out_from(spoken_of(rule))
        },
        "needs": sorted(rule.needs),
        "source": rule.source,
        "reference": rule.reference,
        "litmus": [one.id for one in all_litmus().values() if rule.id in one.rules],
        "allowed": rule.allowed,
        "digest": rule.digest,
    }


def listed(rules: Sequence[Rule], style: Style) -> Iterator[str]:
    """A line per rule, pack by pack."""
    pack = ""
    for rule in rules:
        if rule.pack != pack:
            if pack:
                yield ""
            pack = rule.pack
            yield style.paint(pack, "bold")
        weak = "" if rule.strength.value == "MUST" else f" ({rule.strength.value})"
        yield from style.wrap(rule.text + weak, " " * 14, f"  {rule.id:<11} ")
    yield ""
    yield style.paint(f"{len(rules)} rules; 'kvlitmus rules ID' explains one", "dim")


def explained(rules: Sequence[Rule], style: Style) -> Iterator[str]:
    """Everything about each rule."""
    for number, rule in enumerate(rules):
        if number:
            yield ""
        yield from terminal.stated(rule, style)
        yield ""
        yield from terminal.labelled("where", place_of(rule.predicate), style, wrap=False)
        when = (
            f"after {', '.join(rule.on)}" if rule.on else "after every call" if rule.facts else "by every call itself"
        )
        yield from terminal.labelled(
            "judged", f"{when}; {rule.kind.value} rule, {rule.strength.value}, pack {rule.pack}", style
        )
        if of_pools(rule):
            also = "of each pool of a cache of components, after its own calls, as far as answers and looks show it"
            yield from terminal.labelled("besides", also, style)
        yield from terminal.labelled("depth", str(rule.depth), style)
        for one in standing_for(rule.id):
            depth = all_rules()[one.rule].depth
            yield from terminal.labelled("with less", f"{one.rule} (depth {depth}) says this: {one.how}", style)
        for one in meant_by(rule.id):
            yield from terminal.labelled("says too", f"what {', '.join(one.of)} say with more: {one.how}", style)
        if rule.needs:
            yield from terminal.labelled("needs", ", ".join(sorted(rule.needs)), style)
        if rule.premise:
            yield from terminal.labelled("counts", f"where there is something to say: {rule.premise_text}", style)
        yield from labelled_lines("logic", logic(rule), style)
        if rule.facts:
            yield from labelled_lines("facts", [*tree(spoken_of(rule))], style)
        if rule.allowed:
            yield from terminal.labelled("allowed", rule.allowed, style)
        yield from terminal.labelled("source", rule.source, style)
        if rule.reference:
            yield from labelled_lines("reference", [reference_of(rule)], style)
        if tests := litmus_about(rule):
            yield from labelled_lines("litmus", tests, style)
        yield from terminal.labelled("digest", rule.digest, style)


def reference_of(rule: Rule) -> str:
    """The function of the reference that keeps a rule, with its file and line."""
    module, _, name = f"kvlitmus.reference.{rule.reference}".rpartition(".")
    return f"{rule.reference} ({place_of(getattr(import_module(module), name))})"


def litmus_about(rule: Rule) -> list[str]:
    """The litmus tests that lead to a rule, each with its file and line; those that lead to the fewest come first."""
    tests = sorted((one for one in all_litmus().values() if rule.id in one.rules), key=lambda one: len(one.rules))
    more = [f"and {len(tests) - SHOWN} more"] * (len(tests) > SHOWN)
    return [f"{one.id} ({place_of(one.program)})" for one in tests[:SHOWN]] + more


def place_of(function: Callable[..., Any]) -> str:
    """The file and line of a definition; below the current folder, as it is seen from there."""
    function = inspect.unwrap(function)
    path = Path(inspect.getsourcefile(function) or "")
    line = inspect.getsourcelines(function)[1]
    here = Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{line}"


def logic(rule: Rule) -> list[str]:
    """What a predicate does: its lines, without what registers it and without its sentence."""
    lines = inspect.getsource(rule.predicate).rstrip().split("\n")
    (function,) = ast.parse("\n".join(lines)).body
    assert isinstance(function, ast.FunctionDef)
    begin, end = function.body[0].lineno, function.body[0].end_lineno or function.body[0].lineno
    return [line for line in (*lines[function.lineno - 1 : begin - 1], *lines[end:]) if line.strip()]


def spoken_of(rule: Rule) -> tuple[str, ...]:
    """The facts of a rule and of its premise."""
    return tuple(dict.fromkeys((*rule.facts, *[rule.premise_fact] * bool(rule.premise))))


def tree(names: Sequence[str]) -> Iterator[str]:
    """Facts and what they are worked out from, down to what every step has; each of them is told of once."""
    told: set[str] = set()
    waiting = [(0, name) for name in reversed(names)]
    while waiting:
        depth, name = waiting.pop()
        before = "  " * depth
        if name not in FACTS:
            yield f"{before}{name}" + (f": {INPUTS[name]}" if name not in told else "")
        elif name in told:
            yield f"{before}{name}, as above"
        else:
            one = FACTS[name]
            about = [f"depth {one.depth}"] + ["may be unknown"] * one.open
            yield f"{before}{name}: {one.meaning} ({', '.join(about)}; {place_of(one.compute)})"
            waiting += [(depth + 1, need) for need in reversed(one.needs)]
        told.add(name)


def labelled_lines(label: str, lines: Sequence[str], style: Style) -> Iterator[str]:
    """Lines of which each begins where it does, with a label before the first."""
    for line in lines:
        (first,) = terminal.labelled(label, " " * (len(line) - len(line.lstrip())), style, wrap=False)
        yield from style.wrap(line.strip(), " " * (terminal.LABEL + 5 + len(line) - len(line.lstrip())), first)
        label = ""


def markdown(rules: Sequence[Rule]) -> Iterator[str]:
    """The rules as Markdown, a section each."""
    pack = ""
    for rule in rules:
        if rule.pack != pack:
            pack = rule.pack
            yield f"## {escape(pack)}"
            yield ""
        yield f"### {rule.id}: {escape(rule.title)}"
        yield ""
        yield escape(rule.text)
        yield ""
        on = ", ".join(rule.on) or ("every call" if rule.facts else "the call itself")
        yield f"- strength {rule.strength.value}, kind {rule.kind.value}, depth {rule.depth}, judged after {escape(on)}"
        if rule.needs:
            yield f"- needs {escape(', '.join(sorted(rule.needs)))}"
        yield from (f"- with less to see, {one.rule} says this: {escape(one.how)}" for one in standing_for(rule.id))
        yield from (f"- fact `{name}`: {escape(FACTS[name].meaning)}" for name in rule.facts)
        yield f"- source: {escape(rule.source)}"
        if rule.reference:
            yield f"- reference: `kvlitmus.reference.{rule.reference}`"
        yield ""
