"""Facts have one definition each, and it is in the spec."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from kvlitmus.spec.law import facts, occasions, plan
from kvlitmus.spec.law import rule as register
from kvlitmus.spec.law.facts import BEFORE, FACTS, INPUTS, UNKNOWN, Fact, Unknown, fact, worked_out_from
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Kind, rule
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.page import Doubt
from kvlitmus.spec.prefix.partial import doubting
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name

RULES = all_rules()
ROOM = Path(__file__).resolve().parent.parent.parent.parent


@pytest.mark.parametrize("name", list(FACTS))
def test_what_a_fact_is_worked_out_from_is_known_where_it_is(name: str) -> None:
    one = FACTS[name]

    assert one.depth in range(4), "what is known at no depth is never judged"
    assert all(need in INPUTS or FACTS[need].depth <= one.depth for need in one.needs)


ELSEWHERE: dict[str, tuple[set[str] | None, str]] = {
    "conformance/kvlitmus/conformance/checker/explain.py": (None, "how facts are told, no facts"),
    "conformance/kvlitmus/conformance/history/compare/compared.py": ({"victims"}, "how a parting is called, no fact"),
    "conformance/kvlitmus/conformance/history/compare/driven.py": ({"raised"}, "a field of a tape's step, no fact"),
    "conformance/kvlitmus/conformance/history/arguments.py": (
        {"page_size", "protected"},
        "arguments of calls, no facts",
    ),
    "conformance/kvlitmus/conformance/history/compare/names.py": (
        {"below", "freed", "host_free", "row", "told"},
        "parts of answers and of looks, no facts",
    ),
    "tests/proofs/prefix/flat_calls.py": (
        {"duplicates", "match_cap", "victims"},
        "fields of the profile and of a choice, no facts",
    ),
    "tests/proofs/prefix/test_any_size_z3.py": ({"below"}, "how a call is named, no fact"),
    "tests/proofs/prefix/page_names.py": (
        {"hash_function", "scheme"},
        "any injective digest, and schemes with slips, take the place of the real ones",
    ),
}
"""Where facts are put in a dictionary by name although the spec works them out, and why: only ever fewer.

``None``: whichever facts.
"""

JUDGES = (
    "conformance/kvlitmus/conformance/checker",
    "conformance/kvlitmus/conformance/history",
    "conformance/kvlitmus/conformance/vectors",
    "conformance/kvlitmus/conformance/litmus",
    "tests/proofs",
)
"""Where rules are judged."""


def named_in(tree: ast.AST) -> Iterator[str]:
    """The names under which a module puts something in a dictionary."""
    for node in ast.walk(tree):
        keys: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            keys = node.keys
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            keys = [node.slice]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"dict", "update"}:
            yield from (keyword.arg for keyword in node.keywords if keyword.arg is not None)
        yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def test_nobody_but_the_spec_works_out_a_fact_that_it_defines() -> None:
    found: dict[str, set[str]] = {}
    for folder in JUDGES:
        for path in sorted((ROOM / folder).rglob("*.py")):
            names = FACTS.keys() & set(named_in(ast.parse(path.read_text(encoding="utf-8"))))
            if names:
                found[path.relative_to(ROOM).as_posix()] = names

    assert found.keys() == ELSEWHERE.keys()
    assert all(names is None or found[path] == names for path, (names, _) in ELSEWHERE.items())


def test_a_second_definition_is_found_however_it_is_written() -> None:
    ways = ("f = {'free_after': x}", "f['free_after'] = x", "f |= {'free_after': x}", "f.update(free_after=x)")

    assert all("free_after" in named_in(ast.parse(way)) for way in (*ways, "f = dict(free_after=x)"))
    assert "free_after" not in named_in(ast.parse("f['free_after'], g(free_after=1)"))


def plain(annotation: object) -> str:
    """A type as text, in which some that are the same to a reader are the same."""
    text = str(annotation).replace(" | Unknown", "").replace("AbstractSet", "frozenset")
    return text.replace("Sequence[str]", "Sequence[object]")


def uses() -> Iterator[tuple[str, str, str, object]]:
    """Each use of a fact as a parameter: by whom, which fact, its type there."""
    for id, one in RULES.items():
        for name, kind in one.predicate.__annotations__.items():
            yield id, name, "rule", kind
    for fact_name, made in FACTS.items():
        for name, kind in made.compute.__annotations__.items():
            yield fact_name, name, "fact", kind


def test_a_fact_has_the_same_type_wherever_it_is_named() -> None:
    odd = []
    for user, name, _, kind in uses():
        if name not in FACTS:
            continue
        own = plain(FACTS[name].compute.__annotations__["return"])
        if own != plain(kind):
            odd.append(f"{user} takes {name} as {kind}, and it is {own}")

    assert not odd, "\n".join(odd)


def test_only_inputs_and_facts_are_parameters_of_facts() -> None:
    for name, one in FACTS.items():
        needs = tuple(inspect.signature(one.compute).parameters)
        earlier = tuple(BEFORE.get(need, need) for need in needs) if name in BEFORE.values() else needs
        assert one.needs == earlier, name
        assert get_type_hints(one.compute)["return"] is not None


def test_what_was_before_a_call_is_said_so_and_follows_from_nothing_after_it() -> None:
    earlier = {name for name in BEFORE.values() if name in FACTS}
    assert all(" before " in f"{FACTS[name].meaning} " and "after" not in FACTS[name].meaning for name in earlier)
    needs = {need for name in worked_out_from(earlier) for need in FACTS[name].needs}
    assert earlier and needs.isdisjoint(INPUTS.keys() - {"setting", "state", "call", "before"})


def test_rules_name_occasions_that_there_are() -> None:
    """A rule on an occasion that no step is would never be judged."""
    strange = {(id, occasion) for id, one in RULES.items() for occasion in one.on if occasion not in set(On)}

    assert not strange


def test_a_fact_is_defined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "FACTS", {"page_size": Fact(0, "slots in a page", len)})

    def page_size(setting: Setting) -> int:
        """Slots in a page."""
        return setting.size

    with pytest.raises(ValueError, match="already defined"):
        fact(0)(page_size)

    def told(of_nowhere: int) -> int:
        """Nothing."""
        return of_nowhere

    with pytest.raises(ValueError, match="neither facts nor inputs"):
        fact(0)(told)


def test_an_unknown_fact_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        assert UNKNOWN


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two facts, one of which may be unknown, and two rules about them."""
    monkeypatch.setattr(facts, "FACTS", dict(FACTS))
    monkeypatch.setattr(plan, "FACTS", facts.FACTS)
    monkeypatch.setattr(register, "FACTS", facts.FACTS)
    monkeypatch.setattr(register, "RULES", {})

    @fact(0)
    def told_pages(state: State) -> int | Unknown:
        """Pages."""
        return UNKNOWN if state.device.doubt.unsure else len(state.device.pages)

    @fact(0)
    def pages_twice(told_pages: int) -> int:
        """Twice as many."""
        return 2 * told_pages

    @rule("TREE-98", on=(On.MATCH,), source="test")
    def pages_are_few(pages_twice: int, page_size: int) -> bool:
        """Pages MUST be few."""
        return pages_twice < page_size

    @rule("TREE-99", kind=Kind.STATE, source="test")
    def pages_are_sized(page_size: int) -> bool:
        """A page MUST have slots."""
        return page_size > 0

    return plan.plan_of(register.RULES.values(), (On.MATCH,), depth=3, capabilities=frozenset())


def run(made: plan.Plan, state: State, size: int, *, told: bool = False) -> plan.Judged | None:
    """Judge one step."""
    setting = Setting(Config(page_size=size), Profile(), 3, frozenset())
    return made.run(setting, state, state, state, calls.Reset(), None, Seen(), Seen(), None, None, None, None, told)


def test_a_rule_of_an_unknown_fact_is_not_judged_and_says_so(planned: plan.Plan) -> None:
    known = empty_state()
    doubtful = doubting(known, Doubt(unsure=frozenset([Name(1)])))

    assert planned.rules == ("TREE-98", "TREE-99")
    assert run(planned, known, 1) is None
    judged = run(planned, doubtful, 1)
    assert judged is not None
    assert judged.unknown == ("TREE-98",)
    assert not judged.broken


def test_facts_are_told_where_a_rule_is_broken_and_when_asked_for(planned: plan.Plan) -> None:
    told = run(planned, empty_state(), 4, told=True)

    assert told == plan.Judged((), (), {"page_size": 4, "told_pages": 0, "pages_twice": 0})
    assert plan.value_of("pages_twice", {"state": empty_state()}, {}) == 0


def test_a_rule_whose_premise_is_not_true_is_judged_but_not_counted(planned: plan.Plan) -> None:
    @rule("TREE-97", kind=Kind.STATE, source="test", premise="not page_size")
    def pages_are_no_more_than_four(page_size: int) -> bool:
        """A page MUST NOT have more than four slots."""
        return page_size <= 4

    made_rule = register.RULES["TREE-97"]
    made = plan.plan_of([made_rule], (On.MATCH,), depth=3, capabilities=frozenset())
    counts = [0]
    for size in (4, 8):
        setting = Setting(Config(page_size=size), Profile(), 3, frozenset())
        known = empty_state()
        judged = made.run(
            setting, known, known, known, calls.Reset(), None, Seen(), Seen(), None, None, None, None, False, counts
        )
        assert (judged is None) == (size == 4)

    assert made.premised == ("TREE-97",) and counts == [2]
    assert made_rule.premise_text == "not: slots in a page"


def test_a_premise_must_be_a_fact_that_is_known_wherever_the_rule_is_judged(planned: plan.Plan) -> None:
    def slots(page_size: int) -> bool:
        """A page MUST have slots."""
        return page_size > 0

    with pytest.raises(ValueError, match="no fact"):
        rule("TREE-96", source="test", premise="moon")(slots)
    with pytest.raises(ValueError, match="can't be known wherever"):
        rule("TREE-96", source="test", premise="vanished")(slots)


def test_only_one_plan_names_what_is_judged_below_the_depth_of_a_fact() -> None:
    deep = plan.plan_of(RULES.values(), (On.FREE,), depth=3, capabilities=frozenset({"pool", "inspect"}))
    flat = plan.plan_of(RULES.values(), (On.FREE,), depth=1, capabilities=frozenset({"pool"}))

    assert {"POOL-09", "POOL-10", "POOL-12"} <= set(deep.rules)
    assert "POOL-10" in flat.rules and not {"POOL-09", "POOL-12"} & set(flat.rules)


def test_each_occasion_is_one_that_some_step_is() -> None:
    registers = (occasions.PLAIN, occasions.JOINT)
    makers = (*[one for some in registers for one in some], *occasions.BY_ANSWER.values(), *occasions.BY_STATE.values())
    source = "".join(inspect.getsource(sys.modules[name]) for name in {one.__module__ for one in makers})
    told = {On.FLAT_CALL: "of every call on a flat cache", On.IN_GROUP: "of every call of a trace within a free group"}

    assert {one for one in On if f"On.{one.name}" not in source} == told.keys()


@pytest.mark.parametrize("depth", [1, 3])
def test_what_is_known_only_without_a_snapshot_is_not_worked_out_with_one(planned: plan.Plan, depth: int) -> None:
    @fact(0, unseen=True)
    def pages_left(state: State) -> int:
        """Pages."""
        return len(state.device.pages)

    @rule("TREE-95", kind=Kind.STATE, source="test")
    def no_page_is_left(pages_left: int) -> bool:
        """No page MUST be left."""
        return pages_left > 0

    made = plan.plan_of([register.RULES["TREE-95"]], (On.MATCH,), depth=depth, capabilities=frozenset())
    setting = Setting(Config(page_size=1), Profile(), depth, frozenset())
    known = empty_state()
    judged = made.run(setting, known, known, known, calls.Reset(), None, Seen(), Seen(), None, None, None, None, False)

    seen = depth == 3
    assert (made.rules, made.never) == (((), ("TREE-95",)) if seen else (("TREE-95",), ()))
    assert (judged is None) == seen
    assert plan.value_of("pages_left", {"state": known, "setting": setting}, {}) == (UNKNOWN if seen else 0)
    assert plan.value_of("pages_left", {"state": known}, {}) is UNKNOWN
