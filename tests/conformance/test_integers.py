"""Integers are integers of whatever class: numpy's, or those of a class of a cache's own."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from kvlitmus.conformance.ports import Config, View
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.support.integers import integer, integers, is_integer, whether
from kvlitmus.spec.interface.tiers import TierView
from tests.support.night import by_turns

FLAT = (Config(), Config(page_size=4), Config(page_size=4, bigram=True))
CONFIGS = (*FLAT, *TIER_CONFIGS[:1], *TIER_CONFIGS[3:6])


class Index:
    """An integer that only says which."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class Derived(int):
    """An integer of a class of its own, which compares and calculates as it likes."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return False

    def __sub__(self, other: object) -> int:
        return 17


def of_numpy(answer: Any) -> Any:
    """An answer in numpy's integers, its sequences of integers as arrays."""
    import numpy

    if type(answer) is int:
        return numpy.int64(answer)
    if type(answer) is bool:
        return numpy.bool_(answer)
    if type(answer) in (list, tuple) and all(type(one) is int for one in answer):
        return numpy.array(answer, dtype=numpy.int64)
    return parts_of(answer, of_numpy)


def of_class(kind: Callable[[int], Any]) -> Callable[[Any], Any]:
    """The same in integers of a class."""

    def change(answer: Any) -> Any:
        return kind(answer) if type(answer) is int else parts_of(answer, change)

    return change


KEPT = frozenset({"units", "key", "namespace", "kind", "handle"})
"""What of an answer is no integer that the cache calculates with."""


def parts_of(answer: Any, change: Callable[[Any], Any]) -> Any:
    """An answer with all that it is made of changed; keys, names and handles stay."""
    if isinstance(answer, View | TierView):
        rows: list[Any] = [change(list(one)) if one else one for one in answer]
        return type(answer)(*rows)
    if isinstance(answer, tuple) and hasattr(answer, "_fields"):
        fields: dict[str, Any] = answer._asdict()  # type: ignore[attr-defined]
        return type(answer)(*(one if name in KEPT else change(one) for name, one in fields.items()))
    if type(answer) in (list, tuple):
        return type(answer)([change(one) for one in answer])
    return answer


ANSWERS = frozenset(
    {
        "alloc",
        "available",
        "alloc_extend",
        "alloc_decode",
        "match",
        "insert",
        "evict",
        "begin",
        "grow",
        "publish",
        "publish_upto",
        "sizes",
        "view",
        "tiers",
        "jobs",
        "peek",
        "host_available",
        "evict_host",
        "load_back",
        "load_back_within",
        "occupied",
        "prefetch",
        "poll",
        "loaded",
        "layers",
        "layers_ready",
    }
)
"""The calls whose answers have integers."""


class Dressed:
    """A specimen whose answers are changed."""

    def __init__(self, inner: Any, change: Callable[[Any], Any]) -> None:
        self._inner, self._change = inner, change

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ANSWERS:
            return found
        return lambda *args, **how: self._change(found(*args, **how))


class DressedTarget:
    """Makes them."""

    profile = PROFILE

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def make(self, config: Config) -> Dressed:
        """A fresh one."""
        return Dressed(target.make(config), self.change)


CLASSES = {
    "numpy": of_numpy,
    "index": of_class(Index),
    "derived": of_class(Derived),
}


@pytest.mark.parametrize("config", by_turns(CONFIGS), ids=lambda config: config.label)
@pytest.mark.parametrize("dress", CLASSES)
def test_answers_in_any_integers_raise_no_alarm(dress: str, config: Config) -> None:
    if dress == "numpy" and importlib.util.find_spec("numpy") is None:
        pytest.skip("numpy is not installed")
    dressed, plain = (
        run_item(one, Item(kind="random", config=config, seed=3, ops=150), Options())
        for one in (DressedTarget(CLASSES[dress]), target)
    )

    assert (dressed.findings, dressed.error) == ([], "")
    assert dressed.evaluated == plain.evaluated


@pytest.mark.parametrize("odd", [True, 1.0, "1", None, b"1", [1], Ellipsis], ids=repr)
def test_what_is_no_integer_is_none(odd: object) -> None:
    assert not is_integer(odd)
    with pytest.raises(TypeError):
        integers([1, odd])


def test_the_number_is_taken_and_nothing_else() -> None:
    assert type(integer(Derived(5))) is int and integer(Derived(5)) - 1 == 4
    assert integers([Index(2), 3]) == (2, 3)
    plain = [1, 2]
    assert integers(plain) is plain


def test_a_truth_value_is_python_s_or_numpy_s() -> None:
    numpy = pytest.importorskip("numpy")
    assert whether(numpy.bool_(True)) is True and whether(False) is False
    for odd in (1, None, "True", numpy.int64(1)):
        with pytest.raises(TypeError):
            whether(odd)
