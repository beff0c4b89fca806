"""Room: how much memory a call needs, and how much a cache may evict for it.

A cache that is short of memory makes room on its own account: it evicts what it lacks, or what its profile declares
beyond that.  How much that is, is the same question wherever memory is taken, on the device and on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.advance import copied_pages, opened_needed_by
from kvlitmus.spec.prefix.calls import EXTENSIONS, Alloc, Begin, Extend, Fork, Grow, Resume
from kvlitmus.spec.prefix.partial import run_of
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import LoadBack, PlainCall
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, Tokens, pages_needed


def wanted_pages(state: State, setting: Setting, call: PlainCall, answer: Any) -> int | None:
    """The pages that a call needs which makes room for itself; ``None`` where nobody knows."""
    size = setting.size
    if isinstance(call, Alloc):
        return pages_needed(call.asked, size)
    if isinstance(call, EXTENSIONS):
        return opened_needed_by(call, setting)
    if isinstance(call, Begin):
        found = found_for(state, setting, call, answer)
        if answer is None and setting.profile.match_ends == "node":
            found = found[: effects.whole_nodes(state.device, found)]
        return pages_needed(len(call.path.key.tokens), size) - len(found) + setting.spare_pages
    if isinstance(call, Grow):
        return growth_needs(state, setting, call)
    if isinstance(call, Fork | Resume):
        return copied_pages(state, setting, call, answer) + setting.spare_pages
    if isinstance(call, LoadBack):
        there = effects.cached_prefix(state.device, call.path.pages)
        wanted = run_of(call.path.pages[there:], state.host)[0]
        short = wanted * size < setting.profile.load_threshold
        return 0 if answer.slots is None and (short or above_quota(state, call, wanted, size)) else wanted
    return None


def growth_needs(state: State, setting: Setting, call: Grow) -> int:
    """The pages that a request needs to grow, and to have as many spare ones as it may, beyond those that it has."""
    running = state.requests[call.rid]
    opened = opened_needed_by(Extend(running.row, call.tokens), setting)
    return max(0, opened + setting.spare_pages - len(running.spare))


def found_for(state: State, setting: Setting, call: Begin | Resume, answer: Any) -> Sequence[Name]:
    """The cached pages that a request begins with, or was refused with."""
    paged = call.path.pages
    if answer is not None:
        return paged[: answer.cached // setting.size]
    return paged[: effects.cached_prefix(state.device, paged[: setting.cap(len(call.path.names)) // setting.size])]


def above_quota(state: State, call: LoadBack, wanted: int, size: int) -> bool:
    """Whether a load of so many pages is more than its quota allows, what it would newly lock taken off."""
    if call.quota is None:
        return False
    resident = call.path.pages[: effects.cached_prefix(state.device, call.path.pages)]
    return (wanted + sum(not state.device.pages[name].locks for name in resident)) * size > call.quota


def lacking(wanted: int, free: int, setting: Setting) -> Tokens:
    """The slots that a cache may evict to have ``wanted`` pages where so many are ``free``, as the profile declares."""
    wanted += setting.profile.evict_slack
    lacks = max(0, wanted - free)
    most = setting.in_batches(wanted if lacks and setting.profile.evict_amount == "need" else lacks)
    return Tokens(most * setting.size)
