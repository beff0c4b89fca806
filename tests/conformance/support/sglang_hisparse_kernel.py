"""The published CUDA kernel of HiSparse's swap-in, thread by thread on the CPU, beside what the adapter says of it.

Run by the release's own interpreter, with a C++ compiler; prints JSON.  The source is compiled as published, but for
the function that copies bytes, which is assembler, and for what launches it.  Each thread of a block is one of the
operating system's contexts; they take turns, and wait for each other where the kernel says so.  ``slip`` as argument
plants one in the adapter's side, so that a difference is seen where there is one.
"""

from __future__ import annotations

import ctypes
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kvlitmus.conformance.adapters.sglang.common.stubs import installed_folder, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_growth import swap_in
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_server import PLAN

SIZES = (
    (1, 128, 1024),
    (7, 128, 1024),
    (64, 128, 1024),
    (128, 128, 1024),
    (1, 4, 32),
    (3, 4, 32),
    (33, 70, 64),
    (4, 6, 32),
)
"""How many tokens are looked at, how many a buffer has room for, and how many threads a block has."""
ROWS, WIDTH, ITEM = 3, 400, 16

MACHINE = r"""
#include <cstdint>
#include <cstring>
#include <ucontext.h>
#include <vector>
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define __shared__
struct Index { int x; };
static Index threadIdx, blockIdx;
alignas(16) char smem_raw[1 << 20];
namespace device::hisparse { template <class... A> void transfer_item(A...) {} }

struct Fiber { ucontext_t context; std::vector<char> stack; bool done = false; };
struct Warp { int arrived = 0, turn = 0; int64_t values[2][32]; };
static std::vector<Fiber> fibers;
static std::vector<Warp> warps;
static ucontext_t machine;
static int arrived, turn;
static void (*program)();

static void give_way() {
  int self = threadIdx.x;
  swapcontext(&fibers[self].context, &machine);
}
static void __syncthreads() {
  int mine = turn;
  if (++arrived == (int)fibers.size()) { arrived = 0; turn++; }
  while (turn == mine) give_way();
}
static const int64_t* exchange(int64_t value) {
  Warp& warp = warps[threadIdx.x / 32];
  int mine = warp.turn;
  warp.values[mine & 1][threadIdx.x % 32] = value;
  if (++warp.arrived == 32) { warp.arrived = 0; warp.turn++; }
  while (warp.turn == mine) give_way();
  return warp.values[mine & 1];
}
static unsigned __ballot_sync(unsigned, bool here) {
  const int64_t* all = exchange(here);
  unsigned mask = 0;
  for (int lane = 0; lane < 32; lane++) mask |= (unsigned)(all[lane] != 0) << lane;
  return mask;
}
static int __shfl_up_sync(unsigned, int value, int by) {
  int lane = threadIdx.x % 32;
  const int64_t* all = exchange(value);
  return lane >= by ? (int)all[lane - by] : value;
}
static int __shfl_sync(unsigned, int value, int lane) { return (int)exchange(value)[lane]; }
static int __popc(unsigned mask) { return __builtin_popcount(mask); }
static int32_t atomicCAS(int32_t* at, int32_t expected, int32_t value) {
  int32_t before = *at;
  if (before == expected) *at = value;
  return before;
}
static void transfer_item_warp(int32_t lane, const void* from, void* to, int64_t bytes) {
  if (lane == 0) memcpy(to, from, bytes);
}
static void run_fiber() { program(); fibers[threadIdx.x].done = true; give_way(); }
static void run_block(int block, int threads) {
  blockIdx.x = block;
  arrived = turn = 0;
  fibers = std::vector<Fiber>(threads);
  warps = std::vector<Warp>(threads / 32);
  for (auto& fiber : fibers) {
    fiber.stack.resize(1 << 15);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    makecontext(&fiber.context, run_fiber, 0);
  }
  for (bool going = true; going;) {
    going = false;
    for (int at = 0; at < threads; at++) {
      if (fibers[at].done) continue;
      threadIdx.x = at;
      going = true;
      swapcontext(&machine, &fibers[at].context);
    }
  }
}
struct Tables {
  int32_t *wanted, *tokens; int64_t* host; int32_t* slots; char *host_kv, *device_kv; int32_t* found;
  int64_t *rows, *lengths; int16_t* order; int32_t* requests; int64_t wide, host_wide;
};
static Tables now;
"""
LAUNCH = r"""
extern "C" void launch_%(number)d(Tables* tables) {
  now = *tables;
  program = [] {
    load_cache_to_device_buffer_kernel<%(threads)d, %(top)d, %(room)d, true, false, int64_t, int64_t>(
        now.wanted, now.tokens, now.host, now.slots, now.host_kv, nullptr, now.device_kv, nullptr, now.found, now.rows,
        now.lengths, now.order, now.requests, now.wide, now.host_wide, %(room)d, %(top)d, %(top)d, 1, %(item)d);
  };
  run_block(0, %(threads)d);
}
"""


def compiled(folder: Path) -> ctypes.CDLL:
    """The kernel for all sizes, as a library."""
    source = (installed_folder(PLAN) / "jit_kernel" / "csrc" / "hisparse.cuh").read_text(encoding="utf-8")
    begins, copies = source.index("constexpr int WARP_SIZE"), source.index("__device__ __forceinline__ void\ntransfer")
    scan = source.index("__device__ __forceinline__ int warp_inclusive_scan")
    launcher = source.index("template <int BLOCK_SIZE, int NUM_TOP_K, int HOT_BUFFER_SIZE, bool IsMLA")
    launches = [
        LAUNCH % {"number": number, "threads": threads, "top": top, "room": room, "item": ITEM}
        for number, (top, room, threads) in enumerate(SIZES)
    ]
    text = "\n".join([MACHINE, source[begins:copies], source[scan:launcher], *launches])
    (folder / "kernel.cpp").write_text(text, encoding="utf-8")
    command = ["c++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-o", "kernel.so", "kernel.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernel.so"))


def tables(top: int, room: int, draw: random.Random) -> dict[str, Any]:
    """The tables of a request that has just been admitted, in pools where each item is its own number."""
    torch = torch_module()
    numbers = torch.arange(2 * WIDTH).repeat_interleave(ITEM // 8).view(-1, ITEM // 8).contiguous()
    first = torch.arange(room, dtype=torch.int32)
    held = torch.cat([first if draw.random() < 0.5 else first * 0 - 1, torch.tensor([-1, -1], dtype=torch.int32)])
    return {
        "device_buffer_tokens": held.repeat(ROWS, 1).contiguous(),
        "host_cache_locs": torch.stack([torch.randperm(WIDTH) for _ in range(ROWS)]),
        "device_buffer_locs": torch.randperm(2 * WIDTH)[: ROWS * (room + 2)].view(ROWS, -1).to(torch.int32),
        "host_cache": numbers,
        "device_buffer": torch.full_like(numbers, -1),
        "top_k_device_locs": torch.full((1, top), -1, dtype=torch.int32),
        "req_pool_indices": torch.tensor([draw.randrange(ROWS)]),
        "lru_slots": torch.arange(room, dtype=torch.int16).repeat(ROWS, 1),
        "num_real_reqs": torch.tensor([1], dtype=torch.int32),
    }


def launch(kernel: Any, here: dict[str, Any]) -> None:
    """The kernel, on these tables."""
    names = (
        *("top_k_tokens", "device_buffer_tokens", "host_cache_locs", "device_buffer_locs", "host_cache"),
        *("device_buffer", "top_k_device_locs", "req_pool_indices", "seq_lens", "lru_slots", "num_real_reqs"),
    )
    pointers = [here[name].data_ptr() for name in names]
    packed = (ctypes.c_int64 * 13)(*pointers, here["device_buffer_tokens"].shape[1], WIDTH)
    kernel(ctypes.byref(packed))


def differences(kernel: Any, size: tuple[int, int, int], draw: random.Random, *, slip: bool) -> list[str]:
    """In what the kernel and the adapter differ over some steps of one request, and where KV is another token's."""
    torch, (top, room, _) = torch_module(), size
    theirs = tables(top, room, draw)
    ours = {name: table.clone() for name, table in theirs.items()}
    row, found = int(theirs["req_pool_indices"][0]), []
    for length in sorted(draw.randrange(max(1, top), WIDTH) for _ in range(6)):
        step = {
            "seq_lens": torch.tensor([length]),
            "top_k_tokens": torch.tensor([draw.sample(range(length), top)], dtype=torch.int32),
        }
        launch(kernel, theirs | step)
        swap_in(**ours, **step, num_top_k=top, hot_buffer_size=room)
        if slip:
            ours["lru_slots"][row] = ours["lru_slots"][row].roll(1)
        names = ("top_k_device_locs", "device_buffer_tokens", "lru_slots")
        found += [f"{name} at {length} tokens" for name in names if not torch.equal(theirs[name], ours[name])]
        for place in range(room) if length > room else ():
            token, slot = (int(theirs[f"device_buffer_{kind}"][row, place]) for kind in ("tokens", "locs"))
            kv = int(theirs["device_buffer"][slot, 0])
            if kv >= 0 and kv != int(theirs["host_cache_locs"][row, token]):
                found.append(f"KV in place {place} at {length} tokens")
    return found


def odd(kernel: Any) -> dict[str, list[int]]:
    """H-52: the places whose KV is overwritten though they keep their token, after wishes that no server has."""
    torch, found = torch_module(), {}
    wishes = {"distinct": [19, 7, 3, 4], "-1": [19, -1, 3, 4], "newest twice": [19, 19, 3, 4], "twice": [9, 9, 3, 4]}
    for name, wanted in wishes.items():
        here = tables(4, 6, random.Random(0))
        here["req_pool_indices"][0] = row = 1  # in front of the first row there is nothing that may be read
        held = [9, 1, 2, 3, 4, 5]
        here["device_buffer_tokens"][row, :6] = torch.tensor(held)
        here["seq_lens"], here["top_k_tokens"] = torch.tensor([20]), torch.tensor([wanted], dtype=torch.int32)
        launch(kernel, here)
        slots, tokens = here["device_buffer_locs"][row], here["device_buffer_tokens"][row]
        written = [place for place in range(6) if int(here["device_buffer"][int(slots[place]), 0]) != -1]
        found[name] = [place for place in written if int(tokens[place]) == held[place]]
    return found


def main(*, slip: bool) -> dict[str, Any]:
    """All sizes, some dozens of requests each."""
    torch_module().manual_seed(0)
    draw, found, cases = random.Random(0), [], 0
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        for number, size in enumerate(SIZES):
            kernel = getattr(library, f"launch_{number}")
            for _ in range(30):
                cases += 1
                found += differences(kernel, size, draw, slip=slip)
        wrong = odd(kernel)
    return {"cases": cases, "differences": found[:5], "count": len(found), "overwritten": wrong}


print(json.dumps(main(slip=sys.argv[1:] == ["slip"])))
