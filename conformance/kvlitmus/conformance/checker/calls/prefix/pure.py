"""Calls that leave the cache alone: prefetch plans against a scripted host, and page hashes.

They change nothing, so nothing is observed afterwards; what was asked, answered and seen by the
script is all that the rules speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from kvlitmus.conformance.checker.calls.prefix.hashing import Noting, run_hashes, run_two_ways
from kvlitmus.conformance.checker.calls.prefix.prefetch import run_plan
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.scripted_host import HostScript
from kvlitmus.conformance.support.frames import raised_at
from kvlitmus.conformance.support.integers import OddForm
from kvlitmus.conformance.support.text import harmless
from kvlitmus.spec.interface.plans import PrefetchAsk
from kvlitmus.spec.prefix.hash_calls import (
    CompareHashes,
    HashNamespaces,
    HashPair,
    HashPieces,
    HashTwoWays,
    PageHashes,
    noted,
    prefixes_of,
)
from kvlitmus.spec.prefix.prefetch_plan import PlanPrefetch
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

Answer = TypeVar("Answer")


def plan(checker: Checker, ask: PrefetchAsk, script: HostScript) -> None:
    """Have a prefetch planned against a host memory that does what the script says."""
    _begin(checker, f"plan_prefetch({_plain(ask)}) on a host with {_plain(script)}")
    call = PlanPrefetch(ask)
    answer, error = _contained(checker, lambda: run_plan(checker.adapter, call, script))
    _end(checker, call, answer, error)


def hashes(checker: Checker, key: Key, page_size: int, prior: str | None = None) -> None:
    """Hash the pages of one key."""
    checker.within(key)
    _begin(checker, f"page_hashes({key_text(key)}, {page_size}, {prior!r})")
    hasher, call = Noting(checker.adapter), PageHashes(key, page_size, prior)
    answer, error = _contained(checker, lambda: run_hashes(hasher, call))
    _end(checker, call, answer, error)
    _compare(checker, hasher)


def hash_pieces(checker: Checker, key: Key, page_size: int, first_pages: int) -> None:
    """Hash one key whole, and in two calls."""
    checker.within(key)
    _begin(checker, f"page_hashes({key_text(key)}, {page_size}), whole and cut after {first_pages} pages")
    _two_ways(checker, HashPieces(key, page_size, first_pages))


def hash_pair(checker: Checker, key: Key, other: Key, page_size: int) -> None:
    """Hash two keys of one namespace."""
    checker.within(key)
    checker.within(other)
    _begin(checker, f"page_hashes({key_text(key)}, {page_size}) and of {key_text(other)}")
    _two_ways(checker, HashPair(key, other, page_size))


def hash_namespaces(checker: Checker, key: Key, foreign: str | None, page_size: int) -> None:
    """Hash one key in two namespaces."""
    checker.within(key)
    checker.within(key._replace(namespace=foreign))
    _begin(checker, f"page_hashes({key_text(key)}, {page_size}), and in the namespace {foreign!r}")
    _two_ways(checker, HashNamespaces(key, foreign, page_size))


def _two_ways(checker: Checker, call: HashTwoWays) -> None:
    """Hash in two ways, and compare; nothing is compared where one of them raised."""
    hasher = Noting(checker.adapter)
    try:
        answer = _contained(checker, lambda: run_two_ways(hasher, call))
    except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises is an observation
        _raise(checker, error)
    checker.answered(call, answer)
    _compare(checker, hasher)


def _compare(checker: Checker, hasher: Noting) -> None:
    """Compare each answer with all that were given before."""
    for asked, answer in hasher.answered:
        prefixes = prefixes_of(checker.ledger, checker.names, asked)
        if prefixes is not None:
            before, call = checker.ledger, CompareHashes(asked.page_size, asked.key.bigram, prefixes)
            checker.ledger = noted(before, call, answer, checker.most_hashes)
            checker.answered(call, answer, before)


def _begin(checker: Checker, text: str) -> None:
    checker.announce(text, text.partition("(")[0])


def _contained(checker: Checker, run: Callable[[], Answer]) -> Answer:
    """The answer of a call that turns exceptions into facts; what would end the process breaks PORT-02."""
    try:
        return run()
    except BaseException as error:
        if isinstance(error, Exception):
            raise
        raise checker.raised(error, "the call") from error


def _end(checker: Checker, call: object, answer: object, error: Exception | None) -> None:
    """Judge the facts first: a rule about the reservation says more than that something was raised.

    Of an answer of another form than was promised there are none.
    """
    if isinstance(error, NotImplementedError | OddForm):
        _raise(checker, error)
    checker.answered(call, answer)
    if error is not None:
        _raise(checker, error)


def _raise(checker: Checker, error: Exception) -> NoReturn:
    """A call raised that should not have."""
    if isinstance(error, NotImplementedError):
        raise error
    if isinstance(error, OddForm):
        raise checker.broken("PORT-03", harmless(error))
    raise checker.broken("PORT-01", f"the call raised {raised_at(error)}")


def _plain(values: PrefetchAsk | HostScript) -> str:
    return ", ".join(f"{name}={value}" for name, value in values._asdict().items())
