"""Calls of the CUDA driver, with a library that stands in for it: what is passed, and what happens when it refuses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kvlitmus.optimized.data import driver


class Function:
    """A function of the library, which copies in earnest; ``answer`` is the code that it returns."""

    def __init__(self, name: str, answer: int, calls: list[tuple[str, int]]) -> None:
        self.name = name
        self.answer = answer
        self.calls = calls
        self.argtypes: tuple[Any, ...] = ()
        self.restype: Any = None

    def __call__(self, *given: Any) -> int:
        assert len(given) == len(self.argtypes)
        assert self.restype is ctypes.c_int
        if self.name == "cuMemcpyAsync":
            target, source, size, stream = given
            self.calls.append((self.name, stream))
            ctypes.memmove(target, source, size)
        elif self.name.startswith("cuMemcpyBatchAsync"):
            self._batch(*given)
        else:
            stream, address, value, flags = given
            self.calls.append((self.name, stream))
            assert (address, value, flags) == (64, 7, 0)
        return self.answer

    def _batch(self, *given: Any) -> None:
        *pointers, count, attributes, which, kinds = given[:7]
        self.calls.append((self.name, given[-1]))
        order = ctypes.c_int.from_address(attributes).value
        assert (order, kinds, ctypes.c_size_t.from_address(which).value) == (1, 1, 0), (
            "sources are read in stream order"
        )
        arrays = [(ctypes.c_uint64 * count).from_address(pointer) for pointer in pointers]
        if self.answer == 0:
            for target, source, size in zip(*arrays, strict=True):
                ctypes.memmove(target, source, size)


class Library:
    """``libcuda`` with these functions and no others."""

    def __init__(self, answers: dict[str, int]) -> None:
        self.calls: list[tuple[str, int]] = []
        for name, answer in answers.items():
            setattr(self, name, Function(name, answer, self.calls))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """What was looked up in a library is forgotten with it."""
    yield
    driver._function.cache_clear()
    driver._memcpy.cache_clear()


def stand_in(patch: pytest.MonkeyPatch, **answers: int) -> Library:
    """Put a library in the place of the driver's; it always has ``cuMemcpyAsync``."""
    library = Library({"cuMemcpyAsync": 0} | answers)
    driver._function.cache_clear()
    driver._memcpy.cache_clear()
    patch.setattr(driver, "_library", lambda: library)
    return library


V2, V1, ONE = "cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync", "cuMemcpyAsync"


@pytest.mark.parametrize(
    ("answers", "stream", "called"),
    [
        ({V2: 0, V1: 0}, 5, [V2]),
        ({V1: 0}, 5, [V1]),
        ({}, 5, [ONE] * 3),
        ({V2: 0}, 0, [ONE] * 3),
        ({V2: 801}, 5, [V2, *[ONE] * 3]),
        ({V1: 1}, 5, [V1, *[ONE] * 3]),
    ],
    ids=["newer", "older", "none", "default-stream", "newer-refuses", "older-refuses"],
)
def test_many_copies(answers: dict[str, int], stream: int, called: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    library = stand_in(monkeypatch, **answers)
    source, target = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    places = np.array([0, 8, 40]), np.array([32, 8, 0]), np.array([4, 8, 16])
    driver.copy_batch(
        (places[0] + target.ctypes.data).astype(np.uint64),
        (places[1] + source.ctypes.data).astype(np.uint64),
        places[2].astype(np.uint64),
        stream,
    )
    expected = np.zeros(64, np.uint8)
    expected[0:4], expected[8:16], expected[40:56] = source[32:36], source[8:16], source[0:16]
    assert np.array_equal(target, expected)
    assert library.calls == [(name, stream) for name in called]


def test_no_copies_are_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    library = stand_in(monkeypatch, **{V2: 0})
    nothing = np.zeros(0, np.uint64)
    driver.copy_batch(nothing, nothing, nothing, 5)
    assert library.calls == []


def test_errors_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, **{V2: 700, ONE: 719, "cuStreamWaitValue32": 801})
    one = np.ones(1, np.uint64)
    with pytest.raises(driver.DriverError, match="cuMemcpyBatchAsync failed with CUDA error 700"):
        driver.copy_batch(one, one, one, 5)
    byte = np.zeros(2, np.uint8)
    with pytest.raises(driver.DriverError, match="cuMemcpyAsync failed with CUDA error 719"):
        driver.copy_async(byte.ctypes.data, byte.ctypes.data + 1, 1, 5)
    with pytest.raises(driver.DriverError, match="cuStreamWaitValue32 failed with CUDA error 801"):
        driver.wait_value(5, 64, 7)


def test_waits_by_the_newer_call_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    library = stand_in(monkeypatch, cuStreamWaitValue32_v2=0, cuStreamWaitValue32=0)
    driver.wait_value(5, 64, 7)
    assert library.calls == [("cuStreamWaitValue32_v2", 5)]
    stand_in(monkeypatch)
    with pytest.raises(driver.DriverError, match="streams know no values"):
        driver.wait_value(5, 64, 7)


def test_the_attributes_are_laid_out_as_the_driver_has_them() -> None:
    """CUmemcpyAttributes: an enum, two locations of two ints each, flags."""
    fields = {name: getattr(driver._Attributes, name).offset for name, *_ in driver._Attributes._fields_}
    assert fields == {"order": 0, "source": 4, "target": 12, "flags": 20}
    assert ctypes.sizeof(driver._Attributes) == 24
