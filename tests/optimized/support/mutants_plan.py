"""Mutants of the prefetch plan and of storage names."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.prefix.prefetch_plan import full_length
from tests.optimized.support.mutants import mutant, without
from tests.support.mutants import Change, Original

PLAN = (Config(page_size=4), Config(page_size=1))
NAMES = (Config(page_size=4), Config(page_size=4, bigram=True))


def planned(id: str, method: str, recipe: str, make: Change) -> None:
    """Register a mutant of one method of the planner; it is called as the specimen's."""

    def patch(original: Original) -> Any:
        return make(original)

    patch.__doc__ = recipe
    mutant(id, f"prefetch:PrefetchPlanner.{method}", like=(id,), configs=PLAN)(patch)


def started(**changes: Callable[[Any, int, Any], Any]) -> Change:
    """A plan in which some fields are other functions of ask, length and slots."""

    def make(original: Original) -> Any:
        def start(self: Any, ask: Any, length: int, slots: Any) -> Any:
            plan = original(self, ask, length, slots)
            return plan._replace(**{name: change(ask, length, slots) for name, change in changes.items()})

        return start

    return make


def gated(change: Callable[[Any], Any]) -> Change:
    """A gate that is asked about something else."""
    return lambda original: lambda self, ask: original(self, change(ask))


def deaf_to(*names: str) -> Change:
    """A plan that leaves out some calls to its host."""

    def make(original: Original) -> Any:
        def plan_prefetch(self: Any, ask: Any, host: Any) -> Any:
            with without(host, *names):
                return original(self, ask, host)

        return plan_prefetch

    return make


def reserved_anyway(original: Original) -> Any:
    """An allocation that failed counts as one of nothing."""

    def reserve(self: Any, ask: Any, host: Any) -> Any:
        length, slots = original(self, ask, host)
        return (length or full_length(ask), []) if slots is None else (length, slots)

    return reserve


def evicts_again(original: Original) -> Any:
    """The same, after one more eviction."""

    def shorten(self: Any, ask: Any, host: Any) -> int:
        host.evict(ask.page_size)
        return int(original(self, ask, host))

    return shorten


def no_reason(original: Original) -> Any:
    """The same reason for every refusal."""
    return lambda self, ask: original(self, ask) and "no memory"


def available_whole(original: Original) -> Any:
    """What is available, in whole pages, whatever was wanted."""

    def shorten(self: Any, ask: Any, host: Any) -> int:
        available = host.available()
        length = int(available - available % ask.page_size)
        return length if length >= max(ask.threshold, ask.page_size) else 0

    return shorten


def available_units(original: Original) -> Any:
    """What is available, not rounded down."""

    def shorten(self: Any, ask: Any, host: Any) -> int:
        length = min(int(host.available()), full_length(ask))
        return length if length >= max(ask.threshold, ask.page_size) else 0

    return shorten


planned(
    "prefetch-untruncated-key",
    "start",
    "The read runs past its memory.",
    started(key_length=lambda a, n, s: full_length(a)),
)
planned(
    "prefetch-untruncated-quota",
    "start",
    "Only the quota forgets the truncation.",
    started(accounted=lambda a, n, s: full_length(a)),
)
planned(
    "prefetch-untruncated-hashes",
    "start",
    "Only the names forget the truncation.",
    started(hashed_pages=lambda a, n, s: full_length(a) // a.page_size),
)
planned(
    "prefetch-keeps-the-end",
    "start",
    "Truncation keeps the end of the key.",
    started(key_start=lambda a, n, s: full_length(a) - n),
)
planned(
    "prefetch-truncated-prefix",
    "start",
    "What precedes the key is cut as the key is.",
    started(prefix_keys=lambda a, n, s: a.prefix_keys[: n // a.page_size] if n < full_length(a) else a.prefix_keys),
)
planned(
    "prefetch-shifted-prefix",
    "start",
    "What truncation takes from the key is taken from the prefix too.",
    started(prefix_keys=lambda a, n, s: a.prefix_keys[(full_length(a) - n) // a.page_size :]),
)
planned(
    "prefetch-forgets-a-page",
    "start",
    "One page of what was allocated is handed to nobody.",
    started(slots=lambda a, n, s: s[: -a.page_size]),
)
planned(
    "prefetch-goes-on-without-slots",
    "reserve",
    "An empty reservation goes to the reader as if it were full.",
    reserved_anyway,
)
planned(
    "prefetch-follows-available", "shorten", "What is available is taken, also more than was wanted.", available_whole
)
planned("prefetch-unaligned-truncation", "shorten", "What is available isn't rounded down to pages.", available_units)
planned(
    "prefetch-threshold-forgotten",
    "shorten",
    "After truncation the threshold isn't looked at.",
    lambda original: lambda self, ask, host: original(self, ask._replace(threshold=0), host),
)
planned(
    "prefetch-evicts-full-length",
    "lacking",
    "The whole request is evicted instead of what lacks.",
    lambda original: lambda self, ask, length, host: (host.available(), length)[1],
)
planned("prefetch-evicts-again", "shorten", "One more eviction for the truncated allocation.", evicts_again)
planned("prefetch-anchor-unprotected", "plan_prefetch", "The anchor is never protected.", deaf_to("protect", "release"))
planned("prefetch-anchor-kept", "plan_prefetch", "Giving up leaves the anchor protected.", deaf_to("release"))
planned("prefetch-truncates-first", "plan_prefetch", "It settles for what is free and never evicts.", deaf_to("evict"))
planned(
    "prefetch-quota-always-full",
    "gate",
    "The quota is a difference of sizes, nothing where they are equal.",
    gated(lambda ask: ask._replace(capacity=ask.capacity // 4)),
)
planned(
    "prefetch-quota-after-adding",
    "gate",
    "The quota counts this prefetch already.",
    gated(lambda ask: ask._replace(occupied=ask.occupied + full_length(ask))),
)
planned(
    "prefetch-quota-off-by-one",
    "gate",
    "A quota that is exactly filled lets one more through.",
    gated(lambda ask: ask._replace(capacity=ask.capacity + 1)),
)
planned(
    "prefetch-threshold-exceeded",
    "gate",
    "A length of exactly the threshold is refused.",
    gated(lambda ask: ask._replace(threshold=ask.threshold + 1)),
)
planned(
    "prefetch-threshold-before-rounding",
    "gate",
    "The threshold is compared with the key as it is.",
    gated(lambda ask: ask._replace(threshold=ask.threshold if ask.key_length < ask.threshold else 0)),
)
planned(
    "prefetch-storage-gate",
    "gate",
    "Whether storage is on isn't asked.",
    gated(lambda ask: ask._replace(storage_on=True)),
)
planned("prefetch-silent-refusal", "gate", "Every refusal gives the same reason.", no_reason)


# -- names ----------------------------------------------------------------------------------------------------


def named(id: str, recipe: str, make: Change, *places: str) -> None:
    """Register a mutant of the functions that make names."""

    def patch(original: Original) -> Any:
        return make(original)

    patch.__doc__ = recipe
    mutant(id, *(places or ("hashing:digests",)), like=(id,), configs=NAMES)(patch)


def chained(digest: Callable[[bytes, bytes, list[bytes]], bytes]) -> Change:
    """A chain whose next digest is this function of the seed, the page's bytes and the digests so far."""

    def make(original: Original) -> Any:
        def digests(data: bytes, width: int, before: bytes, tag: bytes) -> bytes:
            found: list[bytes] = []
            for at in range(0, len(data), width):
                found.append(digest(before, bytes(data[at : at + width]), found))
            return b"".join(found)

        return digests

    return make


TAG = b"kvp"
"""What the message of a page begins with: a slip is one besides it."""

named(
    "hash-chain-restarted",
    "What precedes is dropped.",
    chained(lambda seed, page, found: sha256(TAG + seed + page).digest()),
)
named(
    "hash-pages-alone", "Each page is hashed by itself.", chained(lambda seed, page, found: sha256(TAG + page).digest())
)
named(
    "hash-first-as-parent",
    "The chain follows the first page.",
    chained(lambda seed, page, found: sha256(TAG + (found or [seed])[0] + page).digest()),
)
named(
    "hash-hex-as-text",
    "The hash before is fed in as text.",
    chained(lambda seed, page, found: sha256(TAG + (found or [seed])[-1].hex().encode() + page).digest()),
)
named(
    "hash-16-bits",
    "Only two bytes of the digest are kept.",
    chained(lambda seed, page, found: sha256(TAG + (found or [seed])[-1] + page).digest()[:2] + bytes(30)),
)
named(
    "hash-upper-case",
    "Hashes are written in upper case.",
    lambda original: lambda joined: [name.upper() for name in original(joined)],
    "hashing:spelled",
)
named(
    "hash-short-tokens",
    "Tokens are masked to 16 bits.",
    lambda original: lambda units, bigram: original(units & (0xFFFF_0000_FFFF if bigram else 0xFFFF), bigram=bigram),
    "hashing:encode",
)
named(
    "hash-big-endian",
    "Tokens are packed in the byte order of the network.",
    lambda original: lambda units, bigram: np.frombuffer(original(units, bigram=bigram), "<u4").astype(">u4").tobytes(),
    "hashing:encode",
)


@mutant("null-plan-looks-twice", "prefetch:PrefetchPlanner.lacking", configs=PLAN)
def plan_looks_twice(original: Original) -> Any:
    """What is available is asked more often than it need be."""

    def lacking(self: Any, ask: Any, length: int, host: Any) -> int:
        host.available()
        return int(original(self, ask, length, host))

    return lacking
