"""The compiled chain of digests: what OpenSSL is given, piece by piece, and where its answers go.

What SHA-256 makes of it is not looked at, and can't be: no formula that z3 decides has 64 rounds of it.  That OpenSSL's
functions and :mod:`hashlib` are the same is tried with known answers when the module is first used, and in
``tests/optimized/test_sha.py``; that :func:`kvlitmus.optimized.sha.plain` is what the scheme says, in
``names_are_chained_as_the_scheme_says``.
"""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.proofs.optimized.claims import proof
from tests.proofs.support.search import Run, every
from tests.proofs.support.source import Slip, Source

SHA = "kvlitmus.optimized.sha"
CONTEXT, DIGEST = 112, 32
"""Bytes of OpenSSL's context, and of a digest."""


class Length:
    """How many bytes some pages of an unknown width and a rest have: what it is, divided by that width."""

    def __init__(self, pages: int, width: Any, rest: Any) -> None:
        self.pages, self.width, self.rest = pages, width, rest
        self.bytes = pages * width + rest

    def __floordiv__(self, other: object) -> int:
        assert other is self.width
        return self.pages

    def __mod__(self, other: object) -> Any:
        assert other is self.width
        return self.rest

    def __lt__(self, other: object) -> Any:
        return self.bytes < other

    def __ge__(self, other: object) -> Any:
        return self.bytes >= other


class Given(NamedTuple):
    """Bytes that are handed in."""

    name: str
    size: Any


class Address(NamedTuple):
    """A place in memory: so many bytes into something."""

    array: Array
    at: Any

    def __add__(self, by: Any) -> Address:
        return Address(self.array, self.at + by)


class Array:
    """An array of bytes."""

    def __init__(self, name: str, size: Any) -> None:
        self.name, self.size = name, size
        self.ctypes = SimpleNamespace(data=Address(self, 0))

    def tobytes(self) -> Array:
        return self


class Contexts(Array):
    """Two contexts of OpenSSL's in one array: of each what it has taken in, ``None`` for one that was not begun."""

    itemsize, shape = 8, (2, 16)

    def __init__(self) -> None:
        super().__init__("contexts", 2 * 8 * 16)
        self.taken: list[list[Any] | None] = [None, None]

    def __getitem__(self, one: int) -> list[Any] | None:
        return self.taken[one]

    def __setitem__(self, one: int, taken: list[Any] | None) -> None:
        self.taken[one] = None if taken is None else list(taken)

    def numbered(self, where: Address) -> int:
        """Which of them is meant; each has room for what OpenSSL keeps."""
        step = 8 * 16
        assert where.array is self and where.at in (0, step) and step >= CONTEXT
        return int(where.at // step)


class OpenSSL:
    """The three functions.  ``refuses``: which call gives 0, if any; ``digests``: where each went, and of what."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.calls, self.refused = 0, False
        self.refuses = run.number("refuses", 0)
        self.digests: list[tuple[Any, list[Any]]] = []

    def answer(self) -> int:
        """1, or 0 where it refuses."""
        self.calls += 1
        refused = bool(self.refuses == self.calls)
        self.refused = self.refused or refused
        return int(not refused)

    def begin(self, context: Address) -> int:
        contexts = context.array
        assert isinstance(contexts, Contexts)
        contexts[contexts.numbered(context)] = []
        return self.answer()

    def update(self, context: Address, data: Address, size: Any) -> int:
        """Take in bytes that are there; of digests only those that have been written."""
        contexts = context.array
        assert isinstance(contexts, Contexts)
        taken = contexts[contexts.numbered(context)]
        assert taken is not None, "this context was not begun, or is spent"
        there = len(self.digests) * DIGEST if data.array.name == "digests" else data.array.size
        self.run.owe(data.at >= 0, "this reads before an array")
        self.run.owe(there >= data.at + size, "this reads behind what is there")
        taken.append((data.array.name, data.at, size))
        return self.answer()

    def final(self, to: Address, context: Address) -> int:
        """Write the digest; the context is spent."""
        contexts = context.array
        assert isinstance(contexts, Contexts) and to.array.name == "digests"
        number = contexts.numbered(context)
        taken = contexts[number]
        assert taken is not None, "this context was not begun, or is spent"
        self.run.owe(to.at >= 0, "this writes before an array")
        self.run.owe(to.array.size >= to.at + DIGEST, "this writes behind an array")
        self.digests.append((to.at, taken))
        contexts[number] = None
        return self.answer()


class Arrays:
    """What the module has of numpy."""

    uint8, uint64 = 1, 8

    @staticmethod
    def empty(size: Any, kind: int) -> Array:
        if size == (2, 16) and kind == 8:
            return Contexts()
        assert kind == 1
        return Array("digests", size)

    @staticmethod
    def frombuffer(data: Given, kind: int) -> Array:
        assert kind == 1
        return Array(data.name, data.size)


CASES = tuple(product((0, 3, 4, 5, 6), (False, True), (False, True)))
"""How many whole pages there are, and whether there is a tag, and a digest before the first page."""


@proof(
    "HASH-01",
    "HASH-02",
    "HASH-05",
    bounds="at most six pages of any width, whole or not; a tag and a digest of any length, or none; any call refused",
    slips=[
        Slip(SHA, "to + DIGEST_BYTES * (k - 1), DIGEST_BYTES)", "to, DIGEST_BYTES)"),
        Slip(SHA, "page + k * width, width)", "page + k, width)"),
        Slip(SHA, "        contexts[0] = contexts[1]\n", "        contexts[0] = contexts[min(k, 1)]\n"),
        Slip(SHA, "        good &= _final(to + DIGEST_BYTES * k, at)", "        good &= _final(to + 16 * k, at)"),
        Slip(SHA, "        if k:\n", "        if k > 1:\n"),
        Slip(SHA, "width or len(data) % width:", "width:"),
        Slip(SHA, "good &= _update(tagged,", "_update(tagged,", case=10),
        Slip(SHA, "digests.tobytes() if good else", "digests.tobytes() if len(data) else"),
        Slip(SHA, "np.empty(len(data) // width * DIGEST_BYTES, np.uint8)", "np.empty(DIGEST_BYTES, np.uint8)"),
    ],
    cases=CASES,
    more=tuple(product(range(1, 40, 3), (True,), (True,))),
)
def a_compiled_chain_hashes_what_the_plain_one_does(source: Source, run: Run, case: tuple[int, bool, bool]) -> object:
    """Tag, digest before and page, each once, whole and in bounds; where it is refused, the plain chain is taken."""
    pages, tagged, follows = case
    width, rest = run.number("width", 1), run.number("rest", 0)
    run.assume(rest < width)
    tag = Given("tag", run.number("tag_bytes", 1) if tagged else 0)
    before = Given("before", run.number("before_bytes", 1) if follows else 0)
    ours, plainly = OpenSSL(run), object()
    named = {
        "_init": ours.begin,
        "_update": ours.update,
        "_final": ours.final,
        "plain": lambda *given: (plainly, *given),
    }
    module = source.module(
        SHA, named, np=Arrays, jitted=lambda function: function, types=Types(), len=lambda one: one.size
    )
    data = Given("data", Length(pages, width, rest))
    made = module.compiled(data, width, before, tag)
    if isinstance(made, tuple):
        few = pages < module.FEW or bool(rest != 0)
        return (few or ours.refused) and made == (plainly, data, width, before, tag)
    if ours.refused or made.name != "digests" or len(ours.digests) != pages:
        return False
    claims: list[object] = [rest == 0, made.size == pages * DIGEST]
    for k, (to, taken) in enumerate(ours.digests):
        above = [("digests", DIGEST * (k - 1), DIGEST)] if k else [("before", 0, before.size)] * follows
        wanted = [("tag", 0, tag.size)] * tagged + above + [("data", width * k, width)]
        if [name for name, _, _ in taken] != [name for name, _, _ in wanted]:
            return False
        claims.append(to == DIGEST * k)
        claims += [a == b for one, other in zip(taken, wanted, strict=True) for a, b in zip(one, other, strict=True)]
    return every(claims)


class Types:
    """What the module has of numba: types of functions, which are never called here."""

    int32 = uintp = staticmethod(lambda *_: None)
    ExternalFunction = staticmethod(lambda *_: None)
