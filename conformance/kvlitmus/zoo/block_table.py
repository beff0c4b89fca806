"""A block table: hash-chained blocks, reference counts, a queue of blocks that is evicted from when it is used.

Written after the idea of vLLM's block pool.  There is no tree.  A request has a table of blocks; the key of a full
block is chained from the key of the block before it, and a block is entered under its key as soon as it is full, in the
call that hands it out.  Two requests that computed the same prefix both keep their blocks, so a key may have several.

What no request holds stands in a queue in the order in which it was let go, the last block of a request first.  It can
be found there until it is handed out, which takes its key away: that is the only eviction.  One token of a prompt is
always left to compute, so a hit never covers all of it.

Below it is a pool that hands blocks out to anybody (``alloc``, ``free``), as one for other kinds of state would, and
continues what was begun (``alloc_extend``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Unsupported, View
from kvlitmus.spec.interface import ORPHAN, Event
from kvlitmus.spec.words.schemes import KVLITMUS_2, Domain
from kvlitmus.spec.words.units import Key, Unit

BlockKey = tuple[object, tuple[Unit, ...]]
"""The key of the block before (or the namespace), and the block's own units."""


@dataclass(slots=True, eq=False)
class Block:
    """One block: how many requests hold it, and under which key it can be found, if it can."""

    number: int
    references: int = 0
    key: BlockKey | None = None


@dataclass(slots=True)
class BlockRequest:
    """A request: its tokens so far, its blocks, and how many of them are entered."""

    key: Key
    blocks: list[Block] = field(default_factory=list)
    entered: int = 0


class BlockTable:
    """All blocks, the queue of those that nobody holds, and where each key is found."""

    def __init__(self, config: Config) -> None:
        self.size = config.page_size
        self.count = config.pages
        self.told: list[Event] = []
        self.start()

    def start(self) -> None:
        """Every block is in the queue and unknown."""
        self.blocks = {number: Block(number) for number in range(1, self.count + 1)}
        self.queue: dict[int, Block] = dict(self.blocks)  # in order; a dictionary for removals in the middle
        self.found: dict[BlockKey, dict[int, Block]] = {}
        self.running: dict[int, BlockRequest] = {}

    def reset(self) -> None:
        """Forget everything."""
        self.told.append(Event("cleared"))
        self.start()

    def flush(self) -> bool:
        """Take the keys of all blocks away, if all are in the queue."""
        if len(self.queue) < self.count:
            return False
        for block in self.blocks.values():
            self.forget(block)
        return True

    # The pool

    def alloc(self, n: int) -> list[int] | None:
        """Blocks for anybody, whole ones."""
        if n % self.size:
            raise ValueError(f"n must be a multiple of {self.size} (got {n})")
        blocks = self.pop(n // self.size)
        return None if blocks is None else self.slots(blocks)

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """The rest of each last block, then blocks of one's own; all or none."""
        opened = [-(-new // self.size) - -(-old // self.size) for old, new in zip(before, after, strict=True)]
        blocks = self.pop(sum(opened))
        if blocks is None:
            return None
        slots: list[int] = []
        for old, new, end, many in zip(before, after, last, opened, strict=True):
            rest = [end + 1 + at for at in range(-old % self.size)]
            slots += (rest + self.slots(blocks[:many]))[: new - old]
            del blocks[:many]
        return slots

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """One slot for each."""
        return self.alloc_extend([length - 1 for length in after], after, last)

    def free(self, slots: Sequence[int]) -> None:
        """Blocks that were handed out to anybody: whole ones, each once; a block that nobody holds is refused."""
        numbers = [slot // self.size for slot in slots[:: self.size]]
        blocks = [self.blocks[number] for number in numbers if number in self.blocks]
        idle = [block.number for block in blocks if not block.references]
        if len({*numbers}) < len(numbers) or idle or self.slots(blocks) != list(slots):
            raise ValueError(f"whole blocks of {self.size} that somebody holds, each once (got {list(slots)})")
        for block in blocks:
            self.release(block)

    def available(self) -> int:
        """Everything in the queue could be handed out now."""
        return len(self.queue) * self.size

    def pop(self, count: int) -> list[Block] | None:
        """The first blocks of the queue; what was found in them is not any more."""
        if count > len(self.queue):
            return None
        popped = list(self.queue.values())[:count]
        for block in popped:
            self.acquire(block)
            self.forget(block)
        return popped

    def acquire(self, block: Block) -> None:
        """One more holds this block; it leaves the queue."""
        block.references += 1
        self.queue.pop(block.number, None)

    def release(self, block: Block) -> None:
        """One less holds this block; at the end of the queue it stands if it was the last one."""
        block.references -= 1
        if not block.references:
            self.queue[block.number] = block

    def forget(self, block: Block) -> None:
        """Take a block's key away."""
        if block.key is None:
            return
        places = self.found[block.key]
        del places[block.number]
        if not places:
            del self.found[block.key]
        self.tell(Event("removed", "device", block.key), len(places))
        block.key = None

    def enter(self, block: Block, key: BlockKey) -> None:
        """From now on the block is found under this key."""
        block.key = key
        places = self.found.setdefault(key, {})
        above, units = key
        before = above if isinstance(above, tuple) else None
        self.tell(Event("stored", "device", key, before, units, namespace_of(key)), len(places))
        places[block.number] = block

    def tell(self, event: Event, others: int) -> None:
        """Listeners go by keys: they hear of the first block of a key, and of the last."""
        if not others:
            self.told.append(event)

    # Requests

    def match(self, key: Key) -> Hit:
        """The blocks that a request with this prompt would begin with."""
        blocks = self.prefix(key)
        return Hit(len(blocks) * self.size, self.slots(blocks))

    def prefix(self, key: Key) -> list[Block]:
        """The longest run of blocks that can be found, one token left out."""
        hit: list[Block] = []
        for one in self.keys(key, max(0, key.length - 1)):
            if one not in self.found:
                break
            hit.append(next(iter(self.found[one].values())))
        return hit

    def keys(self, key: Key, length: int) -> list[BlockKey]:
        """The chained keys of the full blocks of the first ``length`` units."""
        above: object = key.namespace
        chained: list[BlockKey] = []
        for start in range(0, length - length % self.size, self.size):
            above = one = (above, key.units[start : start + self.size])
            chained.append(one)
        return chained

    def begin(self, rid: int, key: Key) -> Begun | None:
        """Take what is found, then the head of the queue for the rest; what is full of it is entered at once."""
        hit = self.prefix(key)
        needed = -(-len(key.tokens) // self.size) - len(hit)
        idle = sum(not block.references for block in hit)
        if needed > len(self.queue) - idle:
            return None
        for block in hit:
            self.acquire(block)
        own = self.pop(needed)
        assert own is not None
        self.running[rid] = BlockRequest(key, hit + own, len(hit))
        self.enter_full(self.running[rid])
        return Begun(self.slots(hit + own)[: len(key.tokens)], len(hit) * self.size)

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """The rest of the last block, then the head of the queue."""
        request = self.running[rid]
        before, after = len(request.key.tokens), len(request.key.tokens) + len(tokens)
        own = self.pop(-(-after // self.size) - len(request.blocks))
        if own is None:
            return None
        request.blocks += own
        request.key = request.key._replace(tokens=request.key.tokens + tuple(tokens))
        self.enter_full(request)
        return self.slots(request.blocks)[before:after]

    def fork(self, rid: int, of: int) -> Begun | None:
        """One more holds the blocks that are entered; the last one, in which both would write, is copied."""
        request = self.running[of]
        shared = request.blocks[: request.entered]
        own = self.pop(len(request.blocks) - request.entered)
        if own is None:
            return None
        for block in shared:
            self.acquire(block)
        self.running[rid] = BlockRequest(request.key, shared + own, request.entered)
        return Begun(self.slots(shared + own)[: len(request.key.tokens)], request.entered * self.size)

    def enter_full(self, request: BlockRequest) -> None:
        """Enter the blocks that are full and not entered yet, whether somebody else has the same or not."""
        keys = self.keys(request.key, request.key.length)
        for block, key in zip(request.blocks[request.entered :], keys[request.entered :], strict=False):
            self.enter(block, key)
        request.entered = max(request.entered, len(keys))

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """Nothing is left to do: what is full was entered long since."""
        request = self.running[rid]
        return Begun(self.slots(request.blocks)[: len(request.key.tokens)], request.entered * self.size)

    def end(self, rid: int, *, keep: bool) -> None:
        """Let go of all blocks, the last one first, so that it is used up before those that it depends on."""
        for block in reversed(self.running.pop(rid).blocks):
            self.release(block)

    # What can be seen

    def slots(self, blocks: Sequence[Block]) -> list[int]:
        """The slots of these blocks, in order."""
        return [block.number * self.size + offset for block in blocks for offset in range(self.size)]

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> list[str]:
        """The names under which a connector would store the blocks."""
        units, whole = key.units, key.length - key.length % page_size
        before = bytes.fromhex(prior) if prior else KVLITMUS_2.seed(Domain(page_size, key.bigram, key.namespace))
        names: list[str] = []
        for start in range(0, whole, page_size):
            before = sha256(KVLITMUS_2.page_message(before, units[start : start + page_size])).digest()
            names.append(before.hex())
        return names

    def events(self) -> list[Event]:
        """A key is told when its first block is entered, and when its last one is used up."""
        told, self.told = self.told, []
        return told

    def view(self) -> View:
        """The queue, and every block that can be found, below any block of the key before."""
        nodes: list[NodeView] = []
        index: dict[BlockKey, int] = {}
        for key in sorted(self.found, key=depth_of):
            above, units = key
            parent = index.get(above, ORPHAN) if isinstance(above, tuple) else -1
            units = units_of(key) if parent == ORPHAN else units
            nodes += [
                NodeView(parent, namespace_of(key), units, tuple(self.slots([block])), block.references)
                for block in self.found[key].values()
            ]
            index[key] = len(nodes) - 1
        return View(list(self.queue), nodes)


def depth_of(key: BlockKey) -> int:
    """How many blocks come before this one."""
    above, deep = key[0], 0
    while isinstance(above, tuple):
        above, deep = above[0], deep + 1
    return deep


def units_of(key: BlockKey) -> tuple[Unit, ...]:
    """All units of the prefix that ends with this block."""
    above, units = key
    return (*(units_of(above) if isinstance(above, tuple) else ()), *units)


def namespace_of(key: BlockKey) -> str | None:
    """The namespace at the beginning of the chain."""
    above = key[0]
    while isinstance(above, tuple):
        above = above[0]
    return above  # type: ignore[return-value]


PROFILE = Profile(
    publish="at_alloc",
    duplicates="kept",
    match_cap="len-1",
    evict_moment="alloc",
    hit_counts="none",
    hash_scheme="kvlitmus-2",
    misuse="reject",
    event_copies="one",
)


class BlockTableTarget:
    """Makes block tables; their order of eviction is that of the queue."""

    profile = PROFILE
    kind: type[BlockTable] = BlockTable

    def make(self, config: Config) -> BlockTable:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("blocks are used up in the order in which they were let go, on the device")
        return self.kind(config)


target = BlockTableTarget()
