"""Calls that leave the cache alone: prefetch plans against a scripted host, and page hashes.

They change nothing, so nothing is observed afterwards; what was asked, answered and seen by the
script is all that the rules speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kvlitmus.conformance.checker.calls.hashing import Noting, run_hashes, run_namespaces, run_pair, run_pieces
from kvlitmus.conformance.checker.calls.prefetch import run_plan
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.scripted_host import HostScript
from kvlitmus.conformance.support.text import harmless, raised_text
from kvlitmus.spec.prefetch_plan import PrefetchAsk
from kvlitmus.spec.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

Answer = TypeVar("Answer")


def plan(checker: Checker, ask: PrefetchAsk, script: HostScript) -> None:
    """Have a prefetch planned against a host memory that does what the script says."""
    _begin(checker, f"plan_prefetch({_plain(ask)}) on a host with {_plain(script)}")
    facts, error = _contained(checker, lambda: run_plan(checker.adapter, ask, script))
    _end(checker, "plan_prefetch", facts, error)


def hashes(checker: Checker, key: Key, page_size: int, prior: str | None = None) -> None:
    """Hash the pages of one key."""
    _begin(checker, f"page_hashes({key_text(key)}, {page_size}, {prior!r})")
    hasher = Noting(checker.adapter)
    name, facts, error = _contained(checker, lambda: run_hashes(hasher, key, page_size, prior, scheme=checker.scheme))
    _end(checker, name, facts, error)
    _compare(checker, hasher)


def hash_pieces(checker: Checker, key: Key, page_size: int, first_pages: int) -> None:
    """Hash one key whole, and in two calls."""
    _begin(checker, f"page_hashes({key_text(key)}, {page_size}), whole and cut after {first_pages} pages")
    hasher = Noting(checker.adapter)
    _end(checker, "hash_pieces", *_guarded(checker, lambda: run_pieces(hasher, key, page_size, first_pages)))
    _compare(checker, hasher)


def hash_pair(checker: Checker, key: Key, other: Key, page_size: int) -> None:
    """Hash two keys of one namespace."""
    _begin(checker, f"page_hashes({key_text(key)}, {page_size}) and of {key_text(other)}")
    hasher = Noting(checker.adapter)
    _end(checker, "hash_pair", *_guarded(checker, lambda: run_pair(hasher, key, other, page_size)))
    _compare(checker, hasher)


def hash_namespaces(checker: Checker, key: Key, foreign: str | None, page_size: int) -> None:
    """Hash one key in two namespaces."""
    _begin(checker, f"page_hashes({key_text(key)}, {page_size}), and in the namespace {foreign!r}")
    hasher = Noting(checker.adapter)
    _end(checker, "hash_namespaces", *_guarded(checker, lambda: run_namespaces(hasher, key, foreign, page_size)))
    _compare(checker, hasher)


def _compare(checker: Checker, hasher: Noting) -> None:
    """Compare each answer with all that were given before."""
    for one in hasher.answered:
        facts = checker.hashed.facts(one)
        if facts is not None:
            checker.evaluate("hashed", facts)


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


def _guarded(checker: Checker, run: Callable[[], dict[str, object]]) -> tuple[dict[str, object], Exception | None]:
    try:
        return _contained(checker, run), None
    except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises is an observation
        return {}, error


def _end(checker: Checker, kinds: str, facts: dict[str, Any], error: Exception | None) -> None:
    """Judge the facts first: a rule about the reservation says more than that something was raised."""
    if isinstance(error, NotImplementedError):
        raise error
    if facts:
        checker.evaluate(kinds if error is None else f"{kinds}+raised", facts)
    if error is not None:
        rule = "PORT-03" if isinstance(error, TypeError) and "must" in harmless(error) else "PORT-01"
        raise checker.broken(rule, f"the call raised {raised_text(error)}")


def _plain(values: PrefetchAsk | HostScript) -> str:
    return ", ".join(f"{name}={value}" for name, value in values._asdict().items())
