"""The report for a terminal: a line per pack, a line per rule that did not pass, then each counterexample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvlitmus.conformance.report.document import Run
from kvlitmus.conformance.report.form import spans
from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.run.baseline import Entry
from kvlitmus.conformance.run.cause import Cause
from kvlitmus.conformance.run.results import Finding, RuleVerdict, Verdict
from kvlitmus.conformance.run.verdicts import Group, main_rule, shortest
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless
from kvlitmus.spec.law.facts import FACTS
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules

LOOK: dict[str, tuple[str, str]] = {
    "passed": ("good", "green"),
    "violated": ("bad", "red"),
    "known": ("warn", "yellow"),
    "warned": ("warn", "yellow"),
    "not_applicable": ("none", "dim"),
    "not_exercised": ("unsure", "yellow"),
    "blocked": ("none", "yellow"),
    "inconclusive": ("unsure", "yellow"),
    "harness_error": ("bad", "red"),
}
"""Symbol and colour of each verdict."""

WORSE = (
    "not_applicable",
    "passed",
    "blocked",
    "not_exercised",
    "inconclusive",
    "known",
    "warned",
    "harness_error",
    "violated",
)
"""Verdicts from good to bad: the worst one marks the pack."""

MOST_CALLS = 60
"""A longer counterexample is shown with its middle left out."""

LABEL = 10


def words(verdict: str) -> str:
    """A verdict as it is spoken."""
    return verdict.replace("_", " ")


def heading(run: Run, style: Style) -> str:
    """The first line."""
    stated = run.target_version.removeprefix("target ")  # it stands behind the name of the target
    target = harmless(" ".join(part for part in (run.target_name, stated) if part))
    configs, rules = len(run.configs), len(run.rules)
    return (
        f"judging {style.paint(target, 'bold')}: {rules} rule{'s' * (rules != 1)}, "
        f"{configs} configuration{'s' * (configs != 1)}, {run.planned} items, depth {run.scope.depth}"
    )


def met_otherwise(run: Run, entry: Entry) -> str:
    """What to do about an entry that was not met; a cause of that id may break another rule."""
    others = {rule for one in run.groups if one.cause.id == entry.cause for rule in one.finding.rules}
    if not others:
        return ": take the entry out"
    return (
        f" with this rule: what {entry.cause} breaks now is {', '.join(sorted(others))}, and an entry is for one rule"
    )


def render(run: Run, style: Style) -> Iterator[str]:
    """All lines of the report, after the heading."""
    yield ""
    yield from packs(run, style)
    yield from explanations(run, style)
    yield ""
    yield from notes(run, style)
    yield from summary(run, style)


def said(run: Run, verdict: RuleVerdict) -> str:
    """The verdict as shown: a violation that the baseline knows is *known*."""
    return "known" if verdict.rule in run.known else verdict.verdict.value


def packs(run: Run, style: Style) -> Iterator[str]:
    """A line per pack, below it the rules that did not pass; equal reasons share a line.

    Rules that are not applicable are counted in the line of their pack, and packs of which none is share the line of
    their family; with ``verbose`` each has a line, and each rule is told with its reason.
    """
    by_pack: dict[str, list[RuleVerdict]] = {}
    for verdict in run.verdicts:
        by_pack.setdefault(run.rules[verdict.rule].pack, []).append(verdict)
    absent: dict[str, dict[str, list[RuleVerdict]]] = {}
    for pack, verdicts in by_pack.items():
        if not style.verbose and all(said(run, one) == "not_applicable" for one in verdicts):
            absent.setdefault(family_of(run.rules[verdicts[0].rule]), {})[pack] = verdicts
        else:
            yield from pack_lines(run, [pack], verdicts, style)
            yield from grouped(run, verdicts, style)
    for together in absent.values():
        yield from pack_lines(run, list(together), [one for some in together.values() for one in some], style)


def family_of(rule: Rule) -> str:
    """What kind of cache a rule is about: the folder in which it stands."""
    below = rule.predicate.__module__.split(".")[2:]
    return below[1] if "components" in below[1:2] else below[0]


def pack_lines(run: Run, names: Sequence[str], verdicts: Sequence[RuleVerdict], style: Style) -> Iterator[str]:
    """How many rules got which verdict, and the shortest reason why some are not applicable, if there is room."""
    tally = Counter(said(run, one) for one in verdicts)
    worst = max(tally, key=WORSE.index)
    mark = style.paint(style.symbol(LOOK[worst][0]), LOOK[worst][1])
    counts = ", ".join(f"{tally[name]} {words(name)}" for name in LOOK if tally[name])
    given = {one.reason for one in verdicts if said(run, one) == "not_applicable"}
    reasons = sorted(given, key=lambda one: (len(one), one))
    why = f": {reasons[0]}{', …' if len(reasons) > 1 else ''}" if reasons and not style.verbose else ""
    lines = style.wrap(", ".join(names), " " * 4)
    name = f"{lines.pop().strip():<9}"
    room = style.width - len(f"  x {name} {counts}") - 1
    if room < 0:
        lines, name = [*lines, f"    {name}"], " " * 9
    end = f"{counts}{style.paint(why if len(why) <= room else '', 'dim')}"
    for number, text in enumerate([*map(str.strip, lines), name]):
        tail = f" {end}" if number == len(lines) else ""
        yield f"  {' ' if number else mark} {style.paint(text, 'bold')}{tail}"


def grouped(run: Run, verdicts: list[RuleVerdict], style: Style) -> Iterator[str]:
    """The rules of a pack that did not pass; those with the same verdict and reason together."""
    together: dict[tuple[str, str], list[str]] = {}
    for one in verdicts:
        kind = said(run, one)
        if kind == "passed" or (kind == "not_applicable" and not style.verbose):
            continue
        if kind in ("violated", "warned"):
            reason = run.rules[one.rule].title
        elif kind == "known":
            reason = f"{run.rules[one.rule].title} ({run.known[one.rule].reason}; {run.known[one.rule].link})"
        else:
            reason = one.reason
        together.setdefault((kind, reason), []).append(one.rule)
    for (kind, reason), rules in together.items():
        symbol, color = LOOK[kind]
        text = f"{', '.join(spans(rules, '…'))} {words(kind)}" + (f": {reason}" if reason else "")
        lines = style.wrap(text, " " * 8, " " * 6 + style.symbol(symbol) + " ")
        yield from (style.paint(line, color) for line in lines)


class Headline(NamedTuple):
    """Where to start: a cause by the number of its group, and those that probably follow from it, each once.

    ``more``: counterexamples by their numbers, each for the rules of which it is the shortest, beyond the headline's.
    """

    at: int
    more: dict[int, list[str]]


def headlines(run: Run) -> list[Headline]:
    """The causes of what fails, first those that broke first in their schedules; what is known is left out."""
    follows, accepted = run.follows, run.accepted
    found = {at: Headline(at, {}) for at, head in enumerate(follows) if head is None and not accepted[at]}
    for verdict in run.verdicts:
        if verdict.verdict in (Verdict.VIOLATED, Verdict.WARNED) and verdict.rule not in run.known:
            at = shortest(run.groups, verdict.rule)
            if at is None or accepted[at]:
                continue
            head = at if follows[at] is None else follows[at]
            if head is not None and verdict.rule not in run.groups[head].finding.rules:
                found[head].more.setdefault(at, []).append(verdict.rule)
    return sorted(found.values(), key=lambda one: not run.groups[one.at].leads)


def one_line(run: Run, at: int, rules: list[str]) -> str:
    """A counterexample in one line."""
    where = run.replay.get(at, "not saved")
    finding = run.groups[at].finding
    words = [f"{', '.join(rules)}: {len(finding.calls)} calls", finding.shortness.partition(":")[0], where]
    return ", ".join(filter(None, words))


def explanations(run: Run, style: Style) -> Iterator[str]:
    """Each cause in full, and a line for what probably follows from it, or all in full if that is wanted."""
    for head in headlines(run):
        yield ""
        yield from counterexample(run, head.at, style)
        if not head.more:
            continue
        yield ""
        if style.every:
            for at, rules in head.more.items():
                yield from counterexample(run, at, style, rules)
                yield ""
        else:
            yield "  also broken, probably by the same cause (--all shows each in full):"
            yield from (f"  {one_line(run, at, rules)}" for at, rules in head.more.items())


def counterexample(run: Run, at: int, style: Style, rules: Sequence[str] = ()) -> Iterator[str]:
    """One counterexample, explained by these rules, or by the first one that it breaks."""
    texts = {id: Stated.by_id(id) for id in run.groups[at].finding.rules}  # one in the way may not be chosen
    saved = str(run.saved.get(at, ""))
    yield from told(run.groups[at], rules, texts, style, saved=saved, replay=run.replay.get(at, ""))


def told(
    group: Group,
    rules: Sequence[str],
    texts: Mapping[str, Stated],
    style: Style,
    *,
    saved: str = "",
    replay: str = "",
) -> Iterator[str]:
    """A counterexample: the one layout, for terminals and for saved reports.

    ``rules``: of those that it breaks, the ones that are stated; the one that matters most, if none are given.
    """
    finding = group.finding
    rules = rules or [main_rule(finding.rules)]
    yield caused(group.cause, style, group.only)
    for id in rules:
        yield from stated(texts[id], style, "red" if texts[id].must else "yellow")
    yield ""
    yield from explained(finding, rules, texts, style)
    yield ""
    yield from sequence(finding, style)
    yield ""
    others = [rule for rule in finding.rules if rule not in rules]
    if others:
        titles = [f"{id} ({texts[id].title})" for id in others] if len(others) <= TITLED else others
        yield from labelled("broken too", f"{', '.join(titles)} by the same call", style)
    yield from parted(finding, style)
    if finding.shortness:
        yield from labelled("shrunk", finding.shortness, style)
    yield from labelled("found by", where(group), style)
    if finding.after:
        yield from labelled("note", f"{', '.join(finding.after)} had broken before; it may follow from that", style)
    elif not group.leads:
        yield from labelled("note", "only seen after other broken rules had been muted; it may follow from them", style)
    if saved:
        yield from labelled("saved in", saved, style)
    if replay:
        yield from labelled("replay", style.paint(replay, "blue"), style, wrap=False)


TITLED = 3
"""So many rules that a call breaks besides are told with their titles: one of them may say best what is wrong."""


def caused(cause: Cause, style: Style, only: str = "") -> str:
    """What a finding is known by, as it begins each counterexample; ``only``: the one write policy that shows it."""
    return style.paint(f"cause {cause.id}", "bold") + f" ({cause.about}{f', only under {only}' if only else ''})"


def parted(finding: Finding, style: Style) -> Iterator[str]:
    """Where cache and reference first parted, if that was seen."""
    if finding.parted:
        yield from labelled("parted", f"state and cache first disagreed after {'; '.join(finding.parted)}", style)


NOT_HERE = "This version has no such rule."


class Stated(NamedTuple):
    """A rule as a reader of counterexamples needs it."""

    id: str
    title: str
    text: str
    must: bool

    @classmethod
    def of(cls, rule: Rule) -> Stated:
        """A rule of this version."""
        return cls(rule.id, rule.title, rule.text, rule.strength.value == "MUST")

    @classmethod
    def by_id(cls, id: str) -> Stated:
        """A rule that a report names; this version may not have it."""
        rule = all_rules().get(id)
        return cls.of(rule) if rule is not None else cls(harmless(id, 40), "", NOT_HERE, must=True)


def stated(rule: Rule | Stated, style: Style, color: str = "blue") -> Iterator[str]:
    """A rule and its sentence."""
    yield f"{style.paint(rule.id, 'bold', color)} {style.paint(rule.title, 'bold')}"
    yield from style.wrap(rule.text, "  ")


def explained(
    finding: Finding, shown: Sequence[str], rules: Mapping[str, Rule | Stated], style: Style
) -> Iterator[str]:
    """What was allowed and what was seen; what the rule's sentence says already isn't said again."""
    if finding.detail:
        yield from labelled("seen", brief(finding.detail), style)
        return
    about = finding.rules[0]
    prefix = f"(by {about}) " if len(shown) > 1 or about not in shown else ""
    if about not in rules or finding.allowed != rules[about].text:
        yield from labelled("allowed", prefix + brief(finding.allowed), style)
    label = "seen"
    for fact, text in finding.seen.items():
        yield from labelled(label, f"{fact.replace('_', ' ')} = {brief(text)}{meant(finding, fact)}", style)
        label = ""


def meant(finding: Finding, fact: str) -> str:
    """What a fact means, where the rule says nothing else about it: it has no other fact."""
    return f" ({FACTS[fact].meaning})" if len(finding.seen) == 1 and fact in FACTS else ""


def labelled(label: str, text: str, style: Style, *, wrap: bool = True) -> list[str]:
    """A text with a label before it."""
    first = f"  {style.paint(f'{label:<{LABEL}}', 'dim')} "
    if not wrap:
        return [first + text]
    indent = " " * (LABEL + 3)
    lines = style.wrap(text, indent)
    return [first + lines[0][len(indent) :], *lines[1:]]


def sequence(finding: Finding, style: Style) -> Iterator[str]:
    """The numbered calls; the last one is the one that broke the rules."""
    calls = finding.calls or [finding.call or "the fresh cache is looked at"]
    last = len(calls)
    for number, call in enumerate(calls, 1):
        if MOST_CALLS // 2 < number <= last - MOST_CALLS // 2 and last > MOST_CALLS:
            if number == MOST_CALLS // 2 + 1:
                yield style.paint(
                    f"       {style.symbol('ellipsis')} {last - MOST_CALLS} calls, in the saved file", "dim"
                )
            continue
        here = number == last
        lines = style.wrap(brief(call), " " * 8, f"  {style.symbol('here') if here else ' '} {number:>3} ")
        yield from (style.paint(line, "bold") if here else line for line in lines)


def where(group: Group) -> str:
    """Which item found it, and how many others."""
    finding, others = group.finding, len(group.items) - 1
    text = finding.item
    if finding.schedule and finding.drawn_steps > finding.steps:
        text += f", shrunk from {finding.drawn_steps} steps to {finding.steps}"
    if finding.schedule and "[" in finding.item and f"[{finding.config.label}]" not in finding.item:
        text += f" in [{finding.config.label}]"
    return text + (f"; also in {others} other item{'s' * (others != 1)}" if others else "")


def notes(run: Run, style: Style) -> Iterator[str]:
    """What went wrong beside the rules: failed items, declined configurations, the baseline."""
    lines: list[tuple[str, str]] = []
    errors = Counter(result.error for result in run.results if result.error)
    lines += [(f"{times} item{'s' * (times != 1)} failed: {error}", "red") for error, times in errors.most_common(5)]
    lines += [(line, "dim") for line in unplayed("declined by the target", run.declined())]
    lines += [(line, "dim") for line in unplayed("not asked for", run.left_out())]
    if run.baseline:
        lines += [
            (f"baseline: {entry.cause} ({entry.rule}) is listed, but was not met{met_otherwise(run, entry)}", "red")
            for entry in run.baseline.stale
        ]
        lines += [
            (f"baseline: {entry.cause} ({entry.rule}) has expired (until {entry.until}, this is {run.version})", "red")
            for entry in run.baseline.expired
        ]
    if run.scope.stopped:
        lines.append((f"stopped at the first cause, after {run.played} of {run.planned} items", "yellow"))
    if run.scope.partial:
        lines.append((run.left, "yellow"))
    for text, color in lines:
        yield from (style.paint(line, color) for line in style.wrap(text, "    ", "  "))
    if lines:
        yield ""


def unplayed(how: str, reasons: Mapping[str, str]) -> Iterator[str]:
    """A line for each reason why configurations were not played."""
    for reason in dict.fromkeys(reasons.values()):
        yield f"{how}: {', '.join(label for label, why in reasons.items() if why == reason)}: {reason}"


def summary(run: Run, style: Style) -> Iterator[str]:
    """The last lines: how many rules got which verdict, how much was done, what the exit code means."""
    tally = run.tally()
    parts = [style.paint(f"{tally[name]} {words(name)}", LOOK[name][1]) for name in LOOK if tally[name]]
    yield f"{len(run.verdicts)} rule{'s' * (len(run.verdicts) != 1)}: {', '.join(parts) or 'nothing judged'}"
    yield style.paint(f"{run.steps:,} steps in {run.played} items, {run.seconds:.1f} s", "dim")
    if tally["not_applicable"] and not style.verbose:
        yield style.paint("-v says of each rule why it is not applicable", "dim")
    meaning = run.meaning
    if run.exit_code == 0 and tally["known"]:
        meaning += ", known violations aside"
    if run.exit_code == 0 and tally["not_exercised"]:
        meaning += "; a shortened run need not exercise every rule"
    if run.exit_code == 4 and tally["blocked"] and not tally["violated"] + tally["warned"]:
        meaning += "; what blocks the rest was not chosen: run without --pack and --rule to see it"
    color = "green" if run.exit_code == 0 else "red" if run.exit_code in (1, 3) else "yellow"
    yield style.paint(f"exit {run.exit_code}: {meaning}", color)
