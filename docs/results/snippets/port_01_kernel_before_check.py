"""SGLang 0.5.13.post1, PagedTokenToKVPoolAllocator: the kernel runs before the capacity check (PORT-01).

Every page is handed out; a request whose last page is full asks for one slot more.  The answer
should be None.  But alloc_decode and alloc_extend launch their kernel first, and the kernel loads
from the free list, which is empty: an access to address 0 of the device.  On a CPU the kernel runs
in Triton's interpreter (TRITON_INTERPRET=1), where this load ends the process; so it is made in a
child process here.

Exits 1 if the fault shows, 0 if None is returned.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TRITON_INTERPRET", "1")

import torch
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator

PAGE, PAGES = 16, 4


def ask(method: str) -> object:
    pool = PagedTokenToKVPoolAllocator(
        PAGE * PAGES, page_size=PAGE, dtype=torch.float16, device="cpu", kvcache=None, need_sort=False
    )
    slots = pool.alloc(PAGE * PAGES)
    assert slots is not None and pool.available_size() == 0
    before, after, last = torch.tensor([PAGE]), torch.tensor([PAGE + 1]), slots[-1:]
    if method == "alloc_decode":
        return pool.alloc_decode(after, after, last)
    return pool.alloc_extend(before, before, after, after, last, 1)


broken = 0
for method in ("alloc_decode", "alloc_extend"):
    child = os.fork()
    if child == 0:
        os._exit(0 if ask(method) is None else 3)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        print(f"{method} on an exhausted pool: the process died of signal {os.WTERMSIG(status)} (expected: None)")
    else:
        print(f"{method} on an exhausted pool: exit status {os.WEXITSTATUS(status)} (0: returned None, as expected)")
    broken += status != 0
sys.exit(broken > 0)
