"""Whatever a method answers or raises, the cache is judged for it: a rule is broken, and the suite goes on."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.ports import PORTS
from kvlitmus.conformance.run.results import ItemResult
from tests.conformance.support import odd_answers
from tests.conformance.support.odd_answers import ENDS, LIKE, ODD, Answered, fits, judged, parts_of, promises, scenes

METHODS = sorted({name for methods in PORTS.values() for name in methods})
BY_DAY, FORMS_BY_DAY = 100, 24
"""One of so many cases is tried by day, all of them at night."""

MAY_REFUSE = ("raw_match", "raw_insert", "raw_free", "raw_prefetch")
"""They are called with what is no sequence of integers, too, which a cache refuses by an error of its own choice."""

SPOKEN_OF = (
    "page_hashes",
    "plan_prefetch",
    "sparse_request",
    "sparse_stage",
    "sparse_prealloc",
    "sparse_back_up",
    "sparse_grow",
)
"""Rules of their own speak of an error that they raise; one that ends the process is what it is everywhere."""

MILD = ("lying tuple",)
"""What says of itself what isn't so, and is read without being asked: as lawful as what it holds."""

FORM = ("PORT-01", "PORT-02", "PORT-03")


@pytest.fixture(autouse=True)
def _as_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a worker nobody but the adapter raises ``KeyboardInterrupt``."""
    monkeypatch.setattr(Checker, "interruptible", False)


def test_each_method_of_each_port_has_a_protocol_and_is_called() -> None:
    assert sorted(promises()) == sorted(scenes()) == METHODS


class Case(NamedTuple):
    """A part of the answers of a method, what it promises, and what is there instead."""

    name: str
    place: str
    promise: Any
    odd: str


def cases(name: str) -> Iterator[Case]:
    """All cases of a method."""
    for place, (promise, _) in parts_of(name).items():
        for odd in ODD:
            yield Case(name, place, promise, odd)


def by_day(what: object) -> bool:
    """Whether a case is one of those that are tried by day."""
    return zlib.crc32(repr(what).encode()) % BY_DAY == 0


def is_lawful(case: Case, part: Any) -> bool:
    """Whether an answer is of the promised form; of a method that answers nothing any is."""
    if promises()[case.name] is type(None) or case.odd in MILD:
        return True
    with suppress(BaseException):
        return fits(case.promise, ODD[case.odd](part))
    return False


def check(case: Case) -> None:
    """An answer of another form breaks a rule about that, and nothing else; any other is judged as any."""
    act = Answered(case.name, case.place, ODD[case.odd])
    result = judged(case.name, act)
    assert not result.error, (case, result.error)
    if act.times and not is_lawful(case, parts_of(case.name)[case.place][1]):
        assert_broken(case, result, FORM)


def assert_broken(case: object, result: ItemResult, rules: tuple[str, ...]) -> None:
    """One of these rules is broken, with a counterexample."""
    assert len(result.findings) == 1, (case, [one.rules for one in result.findings])
    (found,) = result.findings
    assert found.rules[0] in rules, (case, found)
    assert found.calls, case
    assert found.detail, case


@pytest.mark.parametrize("name", METHODS)
def test_an_odd_answer_is_judged(name: str) -> None:
    for case in filter(by_day, cases(name)):
        check(case)


@pytest.mark.nightly
@pytest.mark.parametrize("name", METHODS)
def test_every_odd_answer_is_judged(name: str) -> None:
    for case in cases(name):
        check(case)


def check_raised(name: str, how: str) -> None:
    """What is raised breaks PORT-01, or PORT-02 where it would end the process."""
    error, before = ENDS[how](), scenes()[name].before

    def act(number: int, lawful: Any) -> Any:
        if number < before:
            return lawful()
        raise error

    result = judged(name, act)
    assert not result.error, (name, how, result.error)
    if name in MAY_REFUSE and isinstance(error, Exception):
        return
    if name in SPOKEN_OF and isinstance(error, Exception):
        assert result.findings, (name, how)
        return
    assert_broken((name, how), result, ("PORT-01",) if isinstance(error, Exception) else ("PORT-02",))


@pytest.mark.parametrize("name", METHODS)
def test_what_is_raised_is_judged(name: str) -> None:
    for how in ENDS:
        if by_day((name, how)):
            check_raised(name, how)


@pytest.mark.nightly
@pytest.mark.parametrize("name", METHODS)
def test_whatever_is_raised_is_judged(name: str) -> None:
    for how in ENDS:
        check_raised(name, how)


def disguises(name: str) -> Iterator[tuple[str, Answered]]:
    """Other forms of the same answers, as lawful as theirs."""
    for place, (promise, part) in parts_of(name).items():
        for like in LIKE.get(type(part), ()):
            if odd_answers.may_be_like(promise, part):
                yield f"{place} {getattr(like, '__name__', '')}", Answered(name, place, like)


@pytest.mark.parametrize("name", METHODS)
def test_the_same_answer_in_another_lawful_form_is_the_same(name: str) -> None:
    for what, act in disguises(name):
        if zlib.crc32(f"{name} {what}".encode()) % FORMS_BY_DAY == 0:
            check_same(what, name, act)


@pytest.mark.nightly
@pytest.mark.parametrize("name", METHODS)
def test_the_same_answer_in_every_lawful_form_is_the_same(name: str) -> None:
    for what, act in disguises(name):
        check_same(what, name, act)


def check_same(what: str, name: str, act: Answered) -> None:
    """Nothing is said of a lawful answer."""
    result = judged(name, act)
    assert (result.findings, result.error) == ([], ""), what
