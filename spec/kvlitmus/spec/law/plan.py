"""Plans: which rules are judged after a step, and their facts, worked out once each.

All steps that are alike (the same kind of call, the same depth and capabilities) have one plan.  Where there are many
of them it is compiled to one function, in which every fact is a local variable: a step has some fifty facts and rules,
and looking each of them up would cost as much as working them out.  :attr:`Plan.source` is that function, to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kvlitmus.spec.law.facts import FACTS, INPUTS, UNKNOWN, Facts, worked_out_from
from kvlitmus.spec.law.inline import expression
from kvlitmus.spec.law.rule import Kind, Rule
from kvlitmus.spec.words.setting import SNAPSHOT


class Judged(NamedTuple):
    """What came of a step in which something was broken or unknown.

    ``broken``: the rules that are not kept; ``unknown``: those that could not be judged here, for want of a fact;
    ``facts``: all facts that were worked out, where something was broken or facts are to be told.
    """

    broken: tuple[str, ...]
    unknown: tuple[str, ...]
    facts: Facts


FIRST = 12
"""So many steps of a plan are judged rule by rule: to compile it costs as much as they do, and most plans have fewer."""


class Plan:
    """The rules to judge after steps that are alike.

    judged: each rule in order, whether its premise is counted, and the facts that it is the first to need.  rules,
    premised: the ids of all, and of those whose premise is counted.
    ``never``: rules about such steps that speak of what is known only without a snapshot, where there is one; they are
    unknown after every step.

    ``run`` takes the inputs of facts (:data:`~kvlitmus.spec.law.facts.INPUTS`, in order), whether all facts are to be
    told, and one count for each rule of ``premised``, to which it adds where the rule's premise was not true; it returns
    ``None`` where facts are not to be told, and every rule was judged and kept.
    """

    __slots__ = ("judged", "never", "premised", "rules", "run", "steps")

    def __init__(self, judged: Iterable[tuple[Rule, bool]], never: tuple[str, ...]) -> None:
        done: set[str] = set()
        self.judged: list[tuple[Rule, bool, list[str]]] = []
        for one, counted in judged:
            needed = worked_out_from((*one.facts, one.premise_fact) if counted else one.facts)
            self.judged.append((one, counted, [name for name in needed if name not in done]))
            done.update(needed)
        self.never = never
        self.rules = tuple(one.id for one, *_ in self.judged)
        self.premised = tuple(one.id for one, counted, _ in self.judged if counted)
        self.steps = 0
        self.run: Callable[..., Judged | None] = self.followed

    def followed(self, *inputs: Any) -> Judged | None:
        """What :attr:`run` does, rule by rule; after a few steps the compiled function takes its place."""
        self.steps += 1
        if self.steps > FIRST:
            self.run = self.compiled()
            return self.run(*inputs)
        *given, told = inputs[: len(INPUTS) + 1]
        idle = inputs[-1]
        known, facts = dict(zip(INPUTS, given, strict=True)), {}
        broken, unknown, counts = [], [], 0
        for one, counted, new in self.judged:
            for name in new:
                needs = [known[need] for need in FACTS[name].needs]
                lacks = any(need is UNKNOWN for need in needs)
                known[name] = facts[name] = UNKNOWN if lacks else FACTS[name].compute(*needs)
            values = [known[name] for name in one.facts]
            lacks = any(value is UNKNOWN for value in values)
            if counted:
                premise = known[one.premise_fact]
                idle[counts] += not lacks and premise is not UNKNOWN and one.idle(premise)
                counts += 1
            if lacks:
                unknown.append(one.id)
            elif not one.predicate(*values):
                broken.append(one.id)
        if broken or told:
            return Judged(tuple(broken), tuple(unknown), facts)
        return Judged((), tuple(unknown), {}) if unknown else None

    @property
    def source(self) -> str:
        """The function that a plan is compiled to, to be read."""
        return self.written({})

    def compiled(self) -> Callable[..., Judged | None]:
        """The function that judges many steps."""
        names: dict[str, Any] = {"UNKNOWN": UNKNOWN, "Judged": Judged}
        exec(compile(self.written(names), "<plan>", "exec"), names)  # noqa: S102 - of this tree's own names
        made: Callable[..., Judged | None] = names["run"]
        return made

    def written(self, names: dict[str, Any]) -> str:
        """The text of that function, and what it has ``names`` for; no fact has one that begins with ``_``."""
        lines, counts = ["_broken, _unknown = [], []"], 0
        for one, counted, new in self.judged:
            lines += [assignment(name, names) for name in new]
            call = worked_out(f"keeps_{one.id.replace('-', '_')}", one.predicate, one.facts, names)
            if counted:
                lines.append(f"if {idle(one)}: _idle[{counts}] += 1")
                counts += 1
            open_ = [name for name in one.facts if is_open(name)]
            if open_:
                known = " and ".join(f"{name} is not UNKNOWN" for name in open_)
                lines += [
                    f"if {known}:",
                    f"    if not {call}: _broken.append({one.id!r})",
                    f"else: _unknown.append({one.id!r})",
                ]
            else:
                lines.append(f"if not {call}: _broken.append({one.id!r})")
        facts = ", ".join(f"{name!r}: {name}" for *_, new in self.judged for name in new)
        lines.append(f"if _broken or _told: return Judged(tuple(_broken), tuple(_unknown), {{{facts}}})")
        lines.append("if _unknown: return Judged((), tuple(_unknown), {})")
        return f"def run({', '.join(INPUTS)}, _told, _idle=()):\n" + "".join(f"    {line}\n" for line in lines)


def applies(one: Rule, occasions: Collection[str], capabilities: frozenset[str]) -> bool:
    """Whether a rule is about calls on these occasions, made to a cache with these capabilities."""
    if one.kind is Kind.PROCEDURE or not one.facts or not one.needs <= capabilities:
        return False
    return one.kind is Kind.STATE or any(occasion in occasions for occasion in one.on)


def knowable(name: str, unknown: Collection[str], capabilities: frozenset[str]) -> bool:
    """Whether a fact may be known after such a step: it can be worked out."""
    if name in unknown:
        return False
    if name in INPUTS:
        return True
    one = FACTS[name]
    if not one.ports <= capabilities:
        return False
    return all(knowable(need, unknown, capabilities) for need in one.needs)


def unseen(names: Iterable[str]) -> bool:
    """Whether one of these facts, or what they are worked out from, is known only where there is no snapshot."""
    return any(FACTS[name].unseen for name in worked_out_from(names))


def plan_of(
    rules: Iterable[Rule],
    occasions: Collection[str],
    *,
    depth: int,
    capabilities: frozenset[str],
    unknown: frozenset[str] = frozenset(),
    premises: bool = True,
) -> Plan:
    """The plan for steps on these occasions.

    ``unknown``: facts that nobody knows.  ``premises``: whether to count where premises are not true, which proofs
    don't need.

    After misuse the rules of that pack are judged, and no others.
    """
    misuse = "misuse" in occasions
    about = [
        one
        for one in rules
        if (one.pack == "misuse") == misuse
        and applies(one, occasions, capabilities)
        and one.depth <= depth
        and all(knowable(name, unknown, capabilities) for name in one.facts)
    ]
    judged = [one for one in about if depth < SNAPSHOT or not unseen(one.facts)]
    kept = {one.id for one in judged}
    counted = [
        bool(one.premise_fact) and premises and knowable(one.premise_fact, unknown, capabilities) for one in judged
    ]
    return Plan(zip(judged, counted, strict=True), tuple(one.id for one in about if one.id not in kept))


def idle(one: Rule) -> str:
    """:meth:`Rule.idle` as text, where the rule's facts are known."""
    name = one.premise_fact
    true = name if one.negated else f"not {name}"
    open_ = sorted(fact for fact in {name, *one.facts} if is_open(fact))
    return " and ".join([*(f"{fact} is not UNKNOWN" for fact in open_), true])


def is_open(name: str) -> bool:
    """Whether a fact may turn out to be unknown."""
    return name in FACTS and (FACTS[name].open or any(is_open(need) for need in FACTS[name].needs))


def assignment(name: str, names: dict[str, Any]) -> str:
    """The line that works a fact out."""
    one = FACTS[name]
    value = worked_out(f"fact_{name}", one.compute, one.needs, names)
    open_ = [need for need in one.needs if is_open(need)]
    if not open_:
        return f"{name} = {value}"
    return f"{name} = {value} if {' and '.join(f'{need} is not UNKNOWN' for need in open_)} else UNKNOWN"


def worked_out(name: str, function: Callable[..., Any], needs: tuple[str, ...], names: dict[str, Any]) -> str:
    """What a function says of these: the expression that it returns, or a call of it by a name that is noted."""
    simple = expression(function, needs)
    if simple is not None:
        names.update(simple.names)
        return f"({simple.text})"
    names[name] = function
    return f"{name}({', '.join(needs)})"


def value_of(name: str, inputs: Mapping[str, Any], known: Facts) -> Any:
    """One fact of a step, for whoever explains it: worked out, with what it needs, and noted among the known.

    Unknown where an input is missing.
    """
    if name in INPUTS:
        return inputs.get(name, UNKNOWN)
    if name not in known:
        one = FACTS[name]
        values = [value_of(need, inputs, known) for need in one.needs]
        unknown = any(value is UNKNOWN for value in values) or (one.unseen and shows_snapshots(inputs))
        known[name] = UNKNOWN if unknown else one.compute(*values)
    return known[name]


def shows_snapshots(inputs: Mapping[str, Any]) -> bool:
    """Whether there is a snapshot after each call, or nobody says that there is none."""
    setting = inputs.get("setting", UNKNOWN)
    return setting is UNKNOWN or setting.seen


def verdicts(
    rules: Iterable[Rule],
    occasions: Collection[str],
    capabilities: frozenset[str],
    inputs: Mapping[str, Any],
    known: Facts,
) -> dict[str, bool]:
    """Which of these rules a step keeps; those are left out that aren't about it, or can't be judged.

    A plan says the same for many steps that are alike, and quickly.  ``known``: facts that are known already, in proofs
    a digest other than SHA-256; those that are worked out are noted there.
    """
    said = {}
    for one in rules:
        if applies(one, occasions, capabilities):
            values = {name: value_of(name, inputs, known) for name in one.facts}
            if not any(value is UNKNOWN for value in values.values()):
                said[one.id] = one.predicate(**values)
    return said
