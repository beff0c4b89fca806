"""vLLM 0.33.0, KVCacheManager: the removal of one copy is told as if all had gone (EVENT-02).

Two requests with the same prompt of one block, one after the other: the last token is always computed, so the second
one computes the block anew, and both blocks have one hash.  Then others need room, and the first block is used up.  A
router that keeps a set of hashes hears that the prompt is gone; the next request with it, and a token more, finds it.

Exits 1 if the fault shows, 0 if what is told is what is found.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import torch
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

BLOCK, BLOCKS = 4, 4
SAMPLING = SimpleNamespace(max_tokens=1, extra_args=None, skip_reading_prefix_cache=False)

init_none_hash(sha256)
spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
manager = KVCacheManager(
    KVCacheConfig(num_blocks=BLOCKS + 1, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["kv"], spec)]),
    max_model_len=1024,
    scheduler_block_size=BLOCK,
    hash_block_size=BLOCK,
    enable_kv_cache_events=True,
)
known: set[object] = set()


def request(name: str, tokens: list[int]) -> Request:
    """A request as the engine makes it."""
    return Request(name, tokens, SAMPLING, None, block_hasher=get_request_block_hasher(BLOCK, sha256))


def begin(name: str, tokens: list[int]) -> Request:
    """What the scheduler does with a waiting request; then the router hears of it."""
    made = request(name, tokens)
    blocks, length, _ = manager.get_computed_blocks(made)
    assert manager.allocate_slots(made, len(tokens) - length, length, blocks) is not None
    made.num_computed_tokens = len(tokens)
    for event in manager.take_events():
        stored = type(event).__name__.endswith("Stored")
        (known.update if stored else known.difference_update)(event.block_hashes)
        print(f"{name}: {'stored ' if stored else 'removed'} {[str(one)[:6] for one in event.block_hashes]}")
    return made


prompt = [1, 1, 1, 1]
manager.free(begin("first", prompt))
second = begin("second", prompt)
for number in range(BLOCKS - 1):
    begin(f"other {number}", [2 + number])

found = manager.get_computed_blocks(request("next", [*prompt, 1]))[1]
told = BLOCK * len(known)
print(f"by the events {told} tokens of the prompt are cached, a request finds {found}")
sys.exit(found != told)
