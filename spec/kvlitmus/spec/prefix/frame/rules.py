"""The frame: nothing changes unlooked-at.

What a call may change is in the table of actions (:mod:`kvlitmus.spec.law.actions`); everything else is **unchanged**.  Each
step is taken apart into the effects that were seen (:mod:`kvlitmus.spec.prefix.frame.explain`).  One that no cause explains breaks
the frame, whichever call it was.  Which causes are enough, how much they allow, and what goes first, the rules of the
other parts say: they govern the cells of the table, the frame guards the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvlitmus.spec.law.actions import ACTIONS, Group
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.frame.explain import Effect, unexplained
from kvlitmus.spec.prefix.judged_step import Look
from kvlitmus.spec.prefix.rules import life as _life  # noqa: F401 - its facts, and those of tiers
from kvlitmus.spec.prefix.seen import TierSeen

EVERY = tuple(ACTIONS)
"""All occasions that have a row."""

FRAME_PROBLEM = "McCarthy and Hayes 1969: the frame problem"
"""Where the rules come from: that what an action does not change must be said as well."""

_UNCHANGED = "no other effects than these, each for one of its causes: {may_change}"


@fact(3)
def may_change(look: Look) -> Sequence[str]:
    """The effects that the call may have, each with its causes."""
    return [f"{what.value} ({', '.join([one.value for one in why])})" for what, why in look.causes.items()]


def remainder(look: Look, group: Group) -> Sequence[Effect]:
    """What changed in a group without a cause."""
    return unexplained(look, group)


@fact(3)
def odd_on_device(look: Look) -> Sequence[Effect]:
    """Pages that came to the device, left it or moved on it without a cause."""
    was, now = look.before.cached, look.after.cached
    if (was is now or was == now) and not look.setting.table:
        return ()
    return remainder(look, Group.DEVICE)


@fact(3)
def odd_in_pool(look: Look) -> Sequence[Effect]:
    """Pages that left the free list of the device or came to it without a cause."""
    was, now = look.before.free, look.after.free
    return () if was is now or was == now else remainder(look, Group.POOL)


@fact(3)
def odd_on_host(look: Look, tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> Sequence[Effect]:
    """Host copies that appeared, vanished or moved without a cause."""
    return () if tiers_seen_before.hosted == tiers_seen.hosted else remainder(look, Group.HOST)


@fact(3)
def odd_in_host_pool(look: Look, tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> Sequence[Effect]:
    """Pages that left the free list of the host or came to it without a cause."""
    return () if tiers_seen_before.host_free == tiers_seen.host_free else remainder(look, Group.HOST_POOL)


@fact(3)
def odd_pins(look: Look, tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> Sequence[Effect] | Unknown:
    """Nodes whose protection on the host changed without a cause."""
    if tiers_seen.hides_pins:
        return UNKNOWN
    return () if tiers_seen_before.pinned == tiers_seen.pinned else remainder(look, Group.PINS)


@fact(3)
def odd_jobs(look: Look, tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> Sequence[Effect]:
    """Jobs that began, ended or went on without a cause."""
    return () if tiers_seen_before.jobs == tiers_seen.jobs else remainder(look, Group.JOBS)


@fact(3)
def odd_with_storage(look: Look, tiers_seen: TierSeen) -> Sequence[Effect]:
    """What storage was asked and given without a cause."""
    record = tiers_seen.record
    return remainder(look, Group.STORAGE) if record.asked or record.got or record.puts else ()


# Rules

frame_rule = partial(rule, on=EVERY, source=FRAME_PROBLEM, allowed=_UNCHANGED)
below_rule = partial(frame_rule, reference="prefix.perform.perform_tiered")


@frame_rule("FRAME-01", needs=("inspect",), reference="prefix.perform.flat")
def the_device_changes_for_a_cause(odd_on_device: Sequence[Effect]) -> bool:
    """A page MUST come to the device, leave it, or move on it only where the table of actions lets the call do that, and for a cause that is there."""
    return not odd_on_device


@frame_rule("FRAME-02", needs=("inspect",), reference="prefix.perform.flat")
def the_free_list_changes_for_a_cause(odd_in_pool: Sequence[Effect]) -> bool:
    """A page MUST leave the free list of the device, or come to it, only where the table of actions lets the call do that, and for a cause that is there."""
    return not odd_in_pool


@below_rule("FRAME-03", needs=("tiers",), premise="host_usable")
def the_host_changes_for_a_cause(odd_on_host: Sequence[Effect]) -> bool:
    """A host copy MUST appear, vanish, or move only where the table of actions lets the call do that, and for a cause that is there."""
    return not odd_on_host


@below_rule("FRAME-04", needs=("tiers",), premise="host_usable")
def the_free_list_of_the_host_changes_for_a_cause(odd_in_host_pool: Sequence[Effect]) -> bool:
    """A page MUST leave the free list of the host, or come to it, only where the table of actions lets the call do that, and for a cause that is there."""
    return not odd_in_host_pool


@below_rule("FRAME-05", needs=("tiers", "steps"), premise="hosted")
def the_host_is_protected_for_a_cause(odd_pins: Sequence[Effect]) -> bool:
    """A host copy MUST be protected more often, or less often, only where the table of actions lets the call do that, and for a job or a prefetch that began or ended."""
    return not odd_pins


@below_rule("FRAME-06", needs=("tiers", "steps"), premise="host_usable")
def jobs_begin_go_on_and_end_for_a_cause(odd_jobs: Sequence[Effect]) -> bool:
    """A job MUST begin, go on, or end only where the table of actions lets the call do that, and for a cause that is there."""
    return not odd_jobs


@below_rule("FRAME-07", needs=("tiers", "lifecycle", "steps"))
def storage_is_used_for_a_cause(odd_with_storage: Sequence[Effect]) -> bool:
    """Storage MUST be asked, read, or written only where the table of actions lets the call do that."""
    return not odd_with_storage
