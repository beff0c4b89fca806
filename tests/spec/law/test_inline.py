"""One expression in the place of a call: where it stands it says what the call says, and else there is a call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from kvlitmus.spec.law import plan
from kvlitmus.spec.law.facts import FACTS, UNKNOWN, Unknown
from kvlitmus.spec.law.inline import expression
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.units import Tokens

RULES = all_rules()
TWO = 2


def slots(pages: Sequence[int], size: int) -> Tokens:
    """Slots."""
    return Tokens(len(pages) * size)


def hidden(seen: bool, pages: int) -> int | Unknown:
    """Pages."""
    return pages if seen else UNKNOWN


def of_a_module(pages: int) -> int:
    """Twice as many."""
    return pages * TWO


def with_conditions(pages: int, most: object) -> int:
    """No more pages than these."""
    if not pages:
        return 0
    if most is None:
        return pages
    return min(pages, cast("int", most))


def with_a_condition_and_no_answer(pages: int) -> int | None:
    """Pages, if there are any."""
    if pages:
        return pages
    print()
    return None


def with_a_scope(pages: Sequence[int]) -> bool:
    """Pages."""
    return all(page > 0 for page in pages)


def with_steps(pages: int) -> int:
    """Pages."""
    pages += 1
    return pages


def test_a_short_expression_is_what_a_function_says() -> None:
    assert expression(slots) == ("len(pages) * size", {})
    assert expression(hidden) == ("pages if seen else UNKNOWN", {})
    assert expression(with_conditions) == ("0 if not pages else pages if most is None else min(pages, most)", {})


def test_what_is_of_a_module_is_named_for_it() -> None:
    name = f"{__name__}.TWO".replace(".", "_")

    assert expression(of_a_module) == (f"pages * {name}", {name: TWO})


@pytest.mark.parametrize(
    "function", [with_a_scope, with_steps, with_a_condition_and_no_answer, lambda pages: pages, len]
)
def test_everything_else_is_called(function: Callable[..., Any]) -> None:
    assert expression(function) is None


def test_what_runs_is_not_taken_for_what_is_written_where_it_was_made() -> None:
    def three(pages: int) -> int:
        """Pages."""
        return pages + 3

    @functools.wraps(slots)
    def wrapped(pages: Sequence[int], size: int) -> int:
        return len(pages) + size

    source = three.__code__
    three.__code__ = source.replace(co_consts=tuple(4 if one == 3 else one for one in source.co_consts))

    assert three(1) == 5 and expression(three) is None
    assert expression(wrapped) == ("len(pages) + size", {})


def test_an_expression_says_what_its_function_says_whatever_it_is_given() -> None:
    """Marks take the place of values, and note what is done with them."""
    written = [one.compute for one in FACTS.values()] + [one.predicate for one in RULES.values()]
    found = {function: text for function in written if (text := expression(function)) is not None}
    for function, text in found.items():
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        same = eval(f"lambda {', '.join(names)}: ({text.text})", {"UNKNOWN": UNKNOWN, **text.names})
        assert ran(function, names) == ran(same, names), function.__name__

    assert len(found) > len(written) / 3, "hardly anything is one expression: is the text of functions still found?"


def ran(function: Callable[..., Any], names: Sequence[str]) -> tuple[str, list[str]]:
    """What came of a function of marks, and all that it did with them."""
    notes: list[str] = []
    try:
        said = str(function(*[Mark(name, notes) for name in names]))
    except Exception as error:  # noqa: BLE001 - marks are no values
        said = type(error).__name__
    return said, notes


class Mark:
    """Something that notes what is done with it, and answers with another mark."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    def made(self, how: str, *others: object) -> Mark:
        """A mark of what was done."""
        self.notes.append(f"{self.name} {how} {[str(one) for one in others]}")
        return Mark(f"({self.name} {how} {', '.join(map(str, others))})", self.notes)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __getattr__(self, name: str) -> Mark:
        return self.made("." + name)

    def __call__(self, *others: object) -> Mark:
        return self.made("()", *others)

    def __bool__(self) -> bool:
        self.notes.append(f"bool {self.name}")
        return len(self.name) % 2 == 0

    def __len__(self) -> int:
        self.notes.append(f"len {self.name}")
        return len(self.name)

    def __iter__(self) -> Iterator[Mark]:
        return iter([self.made("each")])

    def __contains__(self, other: object) -> bool:
        return bool(self.made("has", other))

    def __eq__(self, other: object) -> Mark:  # type: ignore[override]
        return self.made("==", other)

    def __hash__(self) -> int:
        return hash(self.name)


def operator(sign: str) -> Callable[[Mark, object], Mark]:
    """An operator of marks."""
    return lambda own, other: own.made(sign, other)


for method in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "lt", "le", "gt", "ge", "ne", "getitem", "radd"):
    setattr(Mark, f"__{method}__", operator(method))


def test_a_plan_has_the_expressions_and_calls_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [RULES["POOL-11"], RULES["POOL-12"]]
    made = plan.plan_of(some, (), depth=3, capabilities=frozenset({"pool", "inspect"}))
    assert "if not (len(free_listed) == len(free_after)): _broken.append('POOL-11')" in made.source
    assert "fact_cached_homes(after, then, setting)" in made.source
    monkeypatch.setattr(plan, "expression", lambda *_: None)
    assert "if not keeps_POOL_11(free_listed, free_after): _broken.append('POOL-11')" in made.source
