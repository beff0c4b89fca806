"""A block table: blocks chained by hash, reference counts, a queue of free blocks that allocations evict from."""

from __future__ import annotations

from hashlib import sha256


class Block:
    """One block, how many requests hold it, and the hash by which it is found once it is full."""

    def __init__(self, number: int) -> None:
        self.number, self.ref_count, self.hash, self.parent = number, 0, "", ""
        self.salt: str | None = None  # what the hash stands for, to be looked at
        self.prefix: tuple[int, ...] = ()


class BlockManager:
    """Tables of blocks for running requests; full blocks are shared, and found until they are handed out again."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.blocks = [Block(number) for number in range(num_blocks)]
        self.queue = {block.number: block for block in self.blocks}  # free, the first one is used first
        self.cached: dict[str, list[Block]] = {}  # of equal blocks each stays cached
        self.tables: dict[int, list[Block]] = {}
        self.tokens: dict[int, tuple[str | None, tuple[int, ...]]] = {}

    def hashes(self, salt: str | None, tokens: tuple[int, ...]) -> list[str]:
        """The hash of each full block, chained from the one before."""
        found, before = list[str](), ""
        for end in range(self.block_size, len(tokens) + 1, self.block_size):
            before = sha256(f"{before} {tokens[end - self.block_size : end]}".encode()).hexdigest()
            found.append(before)
        return found

    def get_computed_blocks(self, salt: str | None, tokens: tuple[int, ...]) -> list[Block]:
        """The blocks that a prompt can begin with; its last token is always computed."""
        found = list[Block]()
        for one in self.hashes(salt, tokens[:-1]):
            if one not in self.cached:
                break
            found.append(self.cached[one][0])
        return found

    def take(self, blocks: list[Block]) -> list[Block]:
        """One request more holds these blocks."""
        for block in blocks:
            block.ref_count += 1
            self.queue.pop(block.number, None)
        return blocks

    def new_blocks(self, count: int) -> list[Block] | None:
        """The blocks at the head of the queue; what was cached in them is evicted."""
        if count > len(self.queue):
            return None
        blocks = self.take(list(self.queue.values())[:count])
        for block in blocks:
            if block.hash:
                self.cached[block.hash].remove(block)
                if not self.cached[block.hash]:
                    del self.cached[block.hash]
            block.hash = ""
        return blocks

    def allocate(self, rid: int, salt: str | None, tokens: tuple[int, ...]) -> bool:
        """Begin a request, or go on with it; whether there was room."""
        table = self.tables.get(rid, [])
        hit = [] if rid in self.tables else self.take(self.get_computed_blocks(salt, tokens))
        new = self.new_blocks(-(-len(tokens) // self.block_size) - len(table) - len(hit))
        if new is None:
            self.put_back(hit)
            return False
        self.tables[rid], self.tokens[rid] = [*table, *hit, *new], (salt, tokens)
        self.cache_full_blocks(rid)
        return True

    def cache_full_blocks(self, rid: int) -> None:
        """Full blocks are found from now on."""
        (salt, tokens), before = self.tokens[rid], ""
        for at, (block, one) in enumerate(zip(self.tables[rid], self.hashes(salt, tokens), strict=False)):
            if not block.hash:
                block.hash, block.parent, block.salt = one, before, salt
                block.prefix = tokens[: (at + 1) * self.block_size]
                self.cached.setdefault(one, []).append(block)
            before = one

    def release(self, rid: int) -> None:
        """A request has ended."""
        del self.tokens[rid]
        self.put_back(self.tables.pop(rid))

    def put_back(self, blocks: list[Block]) -> None:
        """One request less holds these blocks; those that nobody holds are free."""
        for block in reversed(blocks):  # the last one is used first: others hang on the first
            block.ref_count -= 1
            if not block.ref_count:
                self.queue[block.number] = block
