"""Slips in the compiled core's components are found where the reference is played beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("kvlitmus.optimized._core", reason="no core")

from tests.optimized.support.alone import built, played
from tests.support.night import by_turns

SLIPS = {
    "a hit with a hole in its window": (
        "while (end >= ends.first && there(component, end, tiers))",
        "while (end > ends.first && there(component, end, tiers))",
    ),
    "a hit on the host": ("(tiers > 1 && at(", "(layout.tiers > 1 && at("),
    "KV behind on the other tier": ("return tier == HOST ? ENTRIES + layout.tracks() : BEHIND;", "return BEHIND;"),
    "a hit past a tombstone": ("k = lower == boundary ? k + 1 : 0;", "k = k + 1;"),
    "a hit that is not used": ("entries_[number].touched = clock;", ""),
    "pools are not summed": ("left -= wants[k];", ""),
    "a place twice": ("unclaim(k);\n                return", "return"),
    "a duplicate is kept": ("pool_of(one.component).hand_over(&one.place, 1, CACHED, USED);", ""),
    "an insert is no hit": ("++entries_[at(one.component, one.end)].hits;", ""),
    "a lock that pins nothing": ("pin(boundary, 1);", ""),
    "a receipt that stays": ("receipts_.erase(found - receipts_.begin());", ""),
    "one entry too many": ("while (freed[k] < wants[k])", "while (freed[k] <= wants[k])"),
    "an entry leaves its place": ("pool_of(track).take_back(&entry.place, 1, CACHED);", ""),
    "KV goes before what is behind it": (
        "if (above && !--above[behind_of(entry)]",
        "if (above && --above[behind_of(entry)]",
    ),
    "an old worth": ("if (!(now != heap.first_worth())) return number;", "return number;"),
    "the first of a path goes first": ("now.third = -(branches_", "now.third = (branches_"),
    "what is needed is not counted": ("guarded[entry.track] += by;", ""),
    "what is not short is evicted for": ("total[pool_number(k)] > pool(tier, pool_number(k)).free_count()", "true"),
    "what goes is told to come": ("entry.at + 1, track, false});", "entry.at + 1, track, true});"),
}
"""In ``components.h``: what is right, and the slip."""

SLIPS_OF_FETCHES = {
    "a shorter window": ("bool short_of = one.shape == Shape::window", "bool short_of = one.shape == Shape::run"),
    "a window too small": ("one.size / one.unit + (one.size % one.unit > 0)", "one.size / one.unit"),
    "an anchor that may go": ("pin_base(start, 1);", ""),
    "an anchor that stays": ("trace(one.anchor);\n    pin_base(one.start, -1);", "trace(one.anchor);"),
    "places that the caller may give back": ("pool_of(k).hand_over(next, one.count[k], USED, RESERVED);", ""),
    "below the threshold": ("boundary - one.start >= least(one.threshold)", "boundary - one.start >= 0"),
    "KV behind a hole": ("|| marked(one, k, end + unit);", "|| true;"),
    "a part of a window": (
        "else if (end != one.boundary || !all_marked(one, k, ends))",
        "else if (end != one.boundary)",
    ),
    "what is written is free": ("bool goes_on = one.running &&", "bool goes_on = false &&"),
}
"""The same in ``fetches.h``."""

SLIPS_OF_COPIES = {
    "a copy that protects nothing": ("pin_entry(one.pins[at], 1);", ""),
    "a refused copy that goes on protecting": (
        "for (int32_t at = 0; at < one.pinned; ++at) pin_entry(one.pins[at], -1);\n        return false;",
        "return false;",
    ),
    "places of a copy that the caller may give back": ("pool.hand_over(next, wants[k], USED, RESERVED);", ""),
    "what is there by now is cached again": (
        "bool lands = fine && beside(entry) == NO_ENTRY;",
        "bool lands = fine;",
    ),
    "what a failed copy brought": (
        "bool lands = fine && beside(entry) == NO_ENTRY;",
        "bool lands = beside(entry) == NO_ENTRY;",
    ),
    "a copy is no use": ("entry.touched = clock;", ""),
    "a copy takes what its tier has": (
        "if (at(layout.track(tier, component), end) != NO_ENTRY) continue;",
        "",
    ),
}
"""And in ``component_copies.h``."""

SLIPS_OF_THE_TYPE = {
    "a namespace of all": (
        "PyDict_GetItemWithError(owner_of(self)->roots, name)",
        "PyDict_GetItemWithError(owner_of(self)->roots, Py_None)",
    ),
}
"""And in ``components_type.cpp``."""

ALL = [
    *(("components.h", slip) for slip in SLIPS.values()),
    *(("fetches.h", slip) for slip in SLIPS_OF_FETCHES.values()),
    *(("component_copies.h", slip) for slip in SLIPS_OF_COPIES.values()),
    *(("components_type.cpp", slip) for slip in SLIPS_OF_THE_TYPE.values()),
]

NAMES = [*SLIPS, *SLIPS_OF_FETCHES, *SLIPS_OF_COPIES, *SLIPS_OF_THE_TYPE]


@pytest.mark.nightly
def test_components_by_themselves_are_the_reference_s(tmp_path: Path) -> None:
    done = played("components", built("components", tmp_path), 4_000)
    assert done.returncode == 0 and "0 differences" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("file", "slip"), by_turns(ALL, NAMES, every=10))
def test_a_slip_is_found(tmp_path: Path, file: str, slip: tuple[str, str]) -> None:
    done = played("components", built("components", tmp_path, file, slip), 20_000)
    assert done.returncode < 0 or (done.returncode == 1 and done.stdout), done.stderr
