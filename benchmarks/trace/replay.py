"""Running a trace through a cache, by the ports that ``run`` uses.

One block is one token and one page, so a capacity is a number of blocks.  Each request does what
an engine does for a prompt: it matches its blocks, locks what was found, evicts what is missing,
allocates, inserts, frees duplicates, and gives its lock back.  Then the next one comes:
requests don't overlap, so the figures depend on the cache alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.trace.mooncake import BLOCK, Request, Trace, TraceError
from kvlitmus.conformance.ports import Config, Hit, Profile, Target, Unsupported, capabilities_of
from kvlitmus.conformance.support.text import harmless, raised_text, shown, type_name
from kvlitmus.spec.words.units import Key

NEEDED = ("pool", "tree", "locks", "evict")
"""The capabilities without which nothing can be replayed."""

MAX_SLOT = 1 << 48
"""A slot beyond this is nonsense whatever the pool."""

PROGRESS_EVERY = 256
"""Requests between two reports of progress."""

VARIANTS: dict[str, Callable[[Request], int]] = {
    "full-leaf": lambda request: request.full,
    "all-leaf": lambda request: len(request.blocks),
}
"""How many of a request's blocks take part: the full ones, as in engines with pages, or the partial last one too."""


class CannotReplay(Exception):
    """A target that can't take part, with the reason."""


class AdapterFailed(Exception):
    """A cache that broke off the replay: it raised, or answered what no cache may answer."""


class Figures(NamedTuple):
    """What one capacity gave; the fields are the keys of the JSON output.

    capacity: blocks.  hit_blocks: blocks found in the cache, over all requests.  hit_tokens: tokens
    in them.  evictions: blocks evicted.  requests_with_hit: requests that found at least one block.
    """

    capacity: int
    hit_blocks: int
    hit_tokens: int
    evictions: int
    requests_with_hit: int


def check_capacity(trace: Trace, variant: str, capacity: int) -> None:
    """Raise :class:`TraceError` naming the first of the longest requests when it doesn't fit."""
    blocks_of = VARIANTS[variant]
    longest = trace.longest(blocks_of)
    if blocks_of(longest) > capacity:
        raise TraceError(
            trace.file,
            longest.line,
            f"a capacity of at least {blocks_of(longest)} blocks for this request, the longest ({variant})",
            str(capacity),
        )


def caveats(profile: Profile) -> tuple[str, ...]:
    """The declared choices of a cache because of which its figures may differ from page-granular LRU."""
    found = []
    if profile.evict_granularity == "node":
        found.append("it evicts whole nodes: more than the shortfall goes at once, so hits and evictions differ")
    if profile.match_cap == "len-1":
        found.append("a match leaves one block to compute: a fully cached request hits one block less")
    if profile.evict_moment == "alloc":
        found.append("it evicts inside allocations too: such evictions are not counted")
    if profile.publish == "at_alloc":
        found.append("blocks become matchable when they are allocated")
    return tuple(found)


def build(target: Target, capacity: int) -> object:
    """A fresh cache of this many blocks.

    Raises :class:`CannotReplay` when the target can't be built so or lacks a port, and
    :class:`AdapterFailed` when building it fails.
    """
    try:
        adapter = target.make(Config(page_size=1, pages=capacity, policy="lru"))
    except Unsupported as reason:
        raise CannotReplay(
            f"it can't be built with {capacity} pages of one token and LRU: {harmless(reason)}"
        ) from reason
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise AdapterFailed(f"make raised {raised_text(error)}") from error
    missing = [port for port in NEEDED if port not in capabilities_of(adapter)]
    if missing:
        raise CannotReplay(f"it has no {' and no '.join(missing)}; a replay needs {', '.join(NEEDED)}")
    return adapter


class Replay:
    """One trace going through one cache.

    Upkeep: ``written`` says for each slot which block's KV was computed into it last, so that a hit
    on another block's slot is seen for what it is.
    """

    def __init__(self, adapter: Any, profile: Profile, capacity: int, variant: str) -> None:
        self.adapter = adapter
        self.profile = profile
        self.capacity = capacity
        self.blocks_of = VARIANTS[variant]
        self.written: dict[int, int] = {}
        self.line = 0
        self.hit_blocks = self.hit_tokens = self.evictions = self.requests_with_hit = 0

    @property
    def figures(self) -> Figures:
        """The figures so far."""
        return Figures(self.capacity, self.hit_blocks, self.hit_tokens, self.evictions, self.requests_with_hit)

    def play(self, request: Request) -> None:
        """One request, from match to unlock.

        Raises :class:`AdapterFailed`, and :class:`CannotReplay` for a cache that doesn't tell slots.
        """
        self.line = request.line
        blocks = request.blocks[: self.blocks_of(request)]
        if not blocks:
            return
        key = Key(None, blocks)
        found, handle = self.match(key)
        receipt = self.call("lock", handle)
        self.count_hit(request, len(found))
        own = self.allocate(len(blocks) - len(found))
        self.insert(key, found, own)
        self.call("unlock", receipt)

    def match(self, key: Key) -> tuple[tuple[int, ...], object]:
        """The slots of the longest cached prefix, and the handle to lock it."""
        answer = self.call("match", key)
        if not isinstance(answer, tuple) or len(answer) != len(Hit._fields):
            raise self.failed(f"match answered {shown(answer, 80)}, not Hit({', '.join(Hit._fields)})")
        length = self.count("match", answer[0])
        if length and answer[1] is None:
            raise CannotReplay("its match does not tell slots, and insert needs them")
        slots = self.slots("match", answer[1] or ())
        if len(slots) != length or length > len(key.tokens):
            raise self.failed(f"match answered length {length} with {len(slots)} slots for {len(key.tokens)} blocks")
        for block, slot in zip(key.tokens, slots, strict=False):
            if self.written.get(slot) != block:
                raise self.failed(f"match gave slot {slot} for block {block}, which is not in it")
        return slots, answer[2]

    def count_hit(self, request: Request, blocks: int) -> None:
        """Note what a request found; the last block may be partly filled."""
        self.hit_blocks += blocks
        self.hit_tokens += min(BLOCK * blocks, request.tokens)
        self.requests_with_hit += blocks > 0

    def allocate(self, wanted: int) -> tuple[int, ...]:
        """Slots for what has to be computed, after evicting what is missing for them."""
        if not wanted:
            return ()
        free = self.count("available", self.call("available"))
        if free < wanted:
            freed = self.count("evict", self.call("evict", wanted - free))
            now = self.count("available", self.call("available"))
            if now != free + freed or now < wanted:
                raise self.failed(
                    f"evict({wanted - free}) answered {freed}; available went from {free} to {now}, {wanted} are needed"
                )
            self.evictions += freed
        answer = self.call("alloc", wanted)
        if answer is None:
            raise self.failed(f"alloc({wanted}) answered None, although enough was available")
        slots = self.slots("alloc", answer)
        if len(slots) != wanted or len(set(slots)) < wanted:
            raise self.failed(f"alloc({wanted}) answered {len(set(slots))} different slots")
        return slots

    def insert(self, key: Key, found: tuple[int, ...], own: tuple[int, ...]) -> None:
        """Cache all blocks, and free duplicates."""
        slots = [*found, *own]
        answer = self.call("insert", key, slots, protected=len(found))
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise self.failed(f"insert answered {shown(answer, 80)}, not Stored(already, to_free)")
        already = self.count("insert", answer[0])
        if not len(found) <= already <= len(slots):
            raise self.failed(f"insert answered {already} blocks cached already, of {len(slots)}, {len(found)} locked")
        vain = self.vain(answer[1], list(own[: already - len(found)]))
        if vain:
            self.call("free", vain)
        self.written.update(zip(own[already - len(found) :], key.tokens[already:], strict=True))

    def vain(self, to_free: object, duplicates: list[int]) -> list[int]:
        """The slots that this caller has to free: as told, else by the profile.

        Slots that stay the caller's are freed too, because the request is over.
        """
        if to_free is not None:
            return list(self.slots("insert", to_free))
        return [] if self.profile.duplicates == "cache_frees" else duplicates

    def call(self, method: str, *args: object, **options: object) -> Any:
        """One port call; whatever it raises ends the replay."""
        try:
            return getattr(self.adapter, method)(*args, **options)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self.failed(f"{method} raised {raised_text(error)}") from error

    def count(self, method: str, answer: object) -> int:
        """An answer that has to be a count."""
        if type(answer) is not int or not 0 <= answer < MAX_SLOT:
            raise self.failed(f"{method} answered {shown(answer, 80)} where a count belongs")
        return answer

    def slots(self, method: str, answer: object) -> tuple[int, ...]:
        """An answer that has to be slots, no more than the pool has."""
        if not isinstance(answer, list | tuple):
            raise self.failed(f"{method} answered {type_name(answer)} where a list of slots belongs")
        if len(answer) > self.capacity:
            raise self.failed(f"{method} answered {len(answer)} slots, more than the pool has")
        for slot in answer:
            if type(slot) is not int or not 0 <= slot < MAX_SLOT:
                raise self.failed(f"{method} answered {shown(slot, 80)} where a slot belongs")
        return tuple(answer)

    def failed(self, what: str) -> AdapterFailed:
        """What to raise when the cache broke off the replay."""
        return AdapterFailed(f"capacity {self.capacity}, request in line {self.line}: {what}")


def replay(
    requests: Sequence[Request],
    target: Target,
    capacity: int,
    variant: str,
    progress: Callable[[int], None] | None = None,
) -> Figures:
    """Run all requests through a fresh cache of ``capacity`` blocks; ``progress`` hears how many are done.

    Raises :class:`CannotReplay` and :class:`AdapterFailed`.
    """
    run = Replay(build(target, capacity), target.profile, capacity, variant)
    for done, request in enumerate(requests):
        if progress is not None and done % PROGRESS_EVERY == 0:
            progress(done)
        run.play(request)
    return run.figures
