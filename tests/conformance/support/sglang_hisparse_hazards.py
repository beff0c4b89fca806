"""What is known to be wrong in SGLang 0.5.13.post1's HiSparse, each shown on the published code, as JSON.

Run by the release's own interpreter.  Each function returns what was seen; what that must be, says
``test_sglang_hisparse.py``.  ``drawn`` as argument judges drawn schedules instead.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kvlitmus.conformance.adapters.sglang.common.stubs import torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse import hisparse
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_growth import Growth
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_server import PAGE, HiSparse, Request
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_transfer import Transfers
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_unified import Unified
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Options

CONFIG = Config(page_size=PAGE, pages=11, pool="sparse")
"""Eleven pages of host memory: the logical pool has ten, the device five."""


def made() -> Unified:
    """A fresh server that computes prompts itself."""
    adapter = hisparse.make(CONFIG)
    assert isinstance(adapter, Unified)
    return adapter


def raised(call: Any, *args: Any) -> str:
    """The kind of error that a call raises; empty for none."""
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001 - it is what is asked for
        return type(error).__name__
    return ""


def pages(tokens: int) -> int:
    """So many tokens in pages."""
    return tokens // PAGE


def overflow() -> dict[str, Any]:
    """H-48: what doesn't fit into a row is found when its pages have been taken."""
    adapter = made()
    error = raised(adapter.sparse_request, 0, 0, 5 * PAGE + 1)
    return {"error": error, "free": pages(adapter.sparse_available()), "row": list(adapter.sparse_read(0))}


def hole() -> dict[str, Any]:
    """H-48: that a start lies within the row is asserted; with ``-O`` nobody looks."""
    adapter = made()
    return {"error": raised(adapter.sparse_request, 0, 1, 1), "free": pages(adapter.sparse_available())}


def admitted(adapter: HiSparse, row: int, tokens: int) -> str:
    """What ``_pre_alloc`` of a decode server does for a request that its budget admits; the error, if there is one."""
    torch = torch_module()
    logical = adapter.allocator.logical_attn_allocator
    assert tokens <= logical.available_size(), "the server would not admit it"
    zero, length = torch.tensor([0]), torch.tensor([tokens])
    taken = adapter.allocator.alloc_logical_only(zero, zero, length, length, torch.tensor([-1]), tokens)
    assert taken is not None
    return raised(adapter.sparse_request, row, 0, tokens)


def admission(*, aborted: bool) -> dict[str, Any]:
    """H-49: host memory isn't looked at when a request is admitted, and an aborted request keeps its own."""
    adapter = made()
    adapter.sparse_request(0, 0, 2 * PAGE)
    (adapter.sparse_abort if aborted else adapter.sparse_free)(0)
    free = pages(adapter.sparse_available())
    errors = [admitted(adapter, row, tokens) for row, tokens in ((1, 4 * PAGE), (2, 4 * PAGE), (3, 2 * PAGE))]
    return {"free": free, "errors": errors}


def with_device_pages(adapter: HiSparse, tokens: int) -> tuple[Request, Any]:
    """A prefilled request with slots of the logical pool and of the device's, as before it is staged."""
    torch = torch_module()
    zero, length = torch.tensor([0]), torch.tensor([tokens])
    slots = adapter.allocator.alloc_extend(zero, zero, length, length, torch.tensor([-1]), tokens)
    request = Request(1)
    request.kv_allocated_len = tokens
    adapter.requests.write((1, slice(0, tokens)), slots.to(torch.int32))
    return request, slots


def dead_branch() -> dict[str, Any]:
    """H-51: the coordinator looks for ``None``, but its allocator asserts, when the mapping is gone."""
    adapter = made()
    request, slots = with_device_pages(adapter, 2 * PAGE)
    device = adapter.allocator.hisparse_attn_allocator
    device.alloc(3 * PAGE)
    try:
        adapter.coordinator.alloc_device_buffer(request)
    except Exception as error:  # noqa: BLE001 - it is what is asked for
        kind = type(error).__name__
    adapter.allocator.free(slots)
    return {"error": kind, "free of the request's two": pages(device.available_size())}


def buffer(*, aborted: bool) -> dict[str, Any]:
    """A request that is aborted while it waits keeps its buffer on the device, and no table names it then."""
    adapter = made()
    request, slots = with_device_pages(adapter, PAGE)
    adapter.coordinator.alloc_device_buffer(request)
    if aborted:
        adapter.sparse_abort(0)
    else:
        adapter.coordinator.request_finished(request)
    adapter.allocator.free(slots)
    return {"free": pages(adapter.allocator.hisparse_attn_allocator.available_size())}


def free_group() -> dict[str, Any]:
    """H-50: freeing ends a free group of the device's pool, but nobody begins one there."""
    adapter = made()
    adapter.allocator.free_group_begin()
    return {"in a group": not adapter.allocator.hisparse_attn_allocator.is_not_in_free_group}


def staged() -> dict[str, Any]:
    """H-51: two prompts that were admitted one after the other; the second one finds no page for its buffer."""
    adapter = made()
    for row in (0, 1):
        assert adapter.sparse_prefills(PAGE + 1), "the server would not admit it"
        adapter.sparse_stage(row, PAGE + 1)
        adapter.sparse_copied(row)
    left = pages(adapter.allocator.hisparse_attn_allocator.available_size())
    return {"free": left, "errors": [raised(adapter.sparse_ready)]}


def abort_of_a_staged_one() -> dict[str, Any]:
    """An abort finds the request in none of the scheduler's queues: it is staged on, and decodes."""
    adapter = made()
    adapter.sparse_stage(0, PAGE)
    adapter.sparse_abort(0)
    adapter.sparse_copied(0)
    return {"pages": pages(len(adapter.sparse_read(0))), "ready": list(adapter.sparse_ready())}


def retracted() -> dict[str, Any]:
    """A staged request that is retracted: its copy is waited for, and all that it had is free."""
    adapter = made()
    adapter.sparse_stage(0, PAGE + 1)
    adapter.sparse_retract(0)
    device, host = adapter.allocator.hisparse_attn_allocator, adapter.sparse_available()
    free = pages(device.available_size()), pages(host), pages(adapter.allocator.logical_attn_allocator.available_size())
    return {"copying": list(adapter.sparse_copying()), "ready": list(adapter.sparse_ready()), "free": list(free)}


class Decode(Transfers, Growth):
    """A decode server with all that it has: what the suite may not ask for at will, a test can ask for in order."""


def abort_of_a_transfer() -> dict[str, Any]:
    """Requests are aborted while their peers write: their pages are free at once, and one is a later request's."""
    adapter, sent, free = Transfers(CONFIG), [], 0
    for _ in range(6):
        assert adapter.sparse_receives(PAGE + 1), "the server would not admit it"
        adapter.sparse_prealloc(0, PAGE + 1, PAGE)
        sent.append(adapter.sparse_destinations(0))
        adapter.sparse_abort(0)
        free = pages(adapter.sparse_available())
    told = len(adapter.peers.given_up)
    return {"free": free, "first": sent[0], "last": sent[-1], "going": len(adapter.sparse_transferring()), "told": told}


def on_the_device(adapter: Decode) -> dict[str, Any]:
    """How many pages are free there, and whether the server's check of memory lets a step take one more."""
    free = adapter.allocator.available_size()
    return {"free": pages(adapter.sparse_device_available()), "check": bool(free >= PAGE)}


def arrived(adapter: Decode, row: int, tokens: int) -> None:
    """A prompt that the server's budget admits comes from a peer; its transfer has the number of its row."""
    assert adapter.sparse_receives(tokens), "the server would not admit it"
    adapter.sparse_prealloc(row, tokens, PAGE)
    adapter.sparse_transferred(row, arrived=True)


def growth_meets_a_transfer() -> dict[str, Any]:
    """A buffer grows, and a prompt that was on its way finds too little for its own."""
    adapter = Decode(CONFIG)
    arrived(adapter, 0, PAGE)
    assert adapter.sparse_receives(PAGE + 1), "the server would not admit it"
    adapter.sparse_prealloc(1, PAGE + 1, PAGE)
    before = on_the_device(adapter)
    adapter.sparse_back_up(0, PAGE + 1)
    adapter.sparse_grow(0, PAGE + 1)
    error = raised(adapter.sparse_transferred, 1, True)
    return {**before, "left": pages(adapter.sparse_device_available()), "error": error}


def growth_by_two_pages() -> dict[str, Any]:
    """A buffer that becomes whole needs a page more than the server's check of memory counts."""
    adapter = Decode(CONFIG)
    for row, tokens in ((0, PAGE), (1, PAGE + 1)):
        arrived(adapter, row, tokens)
    before = on_the_device(adapter)
    adapter.sparse_back_up(0, PAGE + 1)
    error = raised(adapter.sparse_grow, 0, PAGE + 1)
    return {**before, "left": pages(adapter.sparse_device_available()), "error": error}


def retracted_in_a_decode_server() -> dict[str, Any]:
    """``release_req`` has the KV copied to the CPU first, as ``Req.offload_kv_cache`` does it."""
    adapter = Decode(CONFIG)
    arrived(adapter, 0, PAGE)
    slots = adapter.requests.req_to_token[1, :PAGE]
    return {"error": raised(adapter.allocator.get_cpu_copy, slots)}


def drawn() -> dict[str, Any]:
    """The rules that drawn schedules break, by the name of the call that broke them."""
    found: dict[str, list[str]] = {}
    for item in plan.items(hisparse.configs, hisparse.profile, steps=4_000, litmus=False):
        result = engine.run_item(hisparse, item, Options(shrink_trials=0))
        assert not result.error, result.error
        for finding in result.findings:
            for rule in finding.rules:
                found.setdefault(rule, []).append(finding.call.partition("(")[0])
    return {rule: sorted(set(calls)) for rule, calls in found.items()}


if sys.argv[1:] == ["drawn"]:
    print(json.dumps(drawn()))
else:
    print(
        json.dumps(
            {
                "overflow": overflow(),
                "hole": hole(),
                "admission": admission(aborted=False),
                "admission after an abort": admission(aborted=True),
                "dead branch": dead_branch(),
                "buffer": buffer(aborted=False),
                "buffer after an abort": buffer(aborted=True),
                "free group": free_group(),
                "staged": staged(),
                "abort of a staged one": abort_of_a_staged_one(),
                "retracted": retracted(),
                "abort of a transfer": abort_of_a_transfer(),
                "growth meets a transfer": growth_meets_a_transfer(),
                "growth by two pages": growth_by_two_pages(),
                "retracted in a decode server": retracted_in_a_decode_server(),
            }
        )
    )
