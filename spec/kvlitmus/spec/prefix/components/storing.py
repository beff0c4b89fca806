"""Storage behind the host: what a cache of components owes that writes KV, and what goes with it, to storage that comes and goes.

A **write** goes from the host to storage.  It is for the boundary of a hit, and takes what that needs of every component and
storage lacks (COMP-32): KV without its window has saved nothing.  All of it is on the host when the write begins (COMP-58); a
write that could begin isn't refused (COMP-59).  What its boundary needs stays on the host until the suite says that the write has
ended, whatever becomes of storage meanwhile (LOCK-01; COMP-12 and COMP-13 say it of evictions).

When storage goes away, every prefetch that isn't over is given up, as by an abort: what I/O may still write is given back
when that has ended, and everything else at once (COMP-29).  Until storage is there again no prefetch
begins, and nothing is evicted for one (COMP-20, COMP-13).
"""

from __future__ import annotations

from collections.abc import Collection

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components import host as _host  # noqa: F401 - what these are worked out from
from kvlitmus.spec.prefix.components.calls import Writing
from kvlitmus.spec.prefix.components.copies import due_in_storage
from kvlitmus.spec.prefix.components.state import landing_on_host, needed_by, written_from
from kvlitmus.spec.prefix.listener import HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Write
from kvlitmus.spec.words.setting import Setting


@fact(0)
def component_detached(state: State) -> bool:
    """Whether storage is away."""
    return state.attached is False


@fact(0)
def component_write_unread(state: State, call: Write, answer: Writing) -> Collection[At]:
    """What a write takes though the host certainly doesn't have it, or a running backup still writes it there."""
    return written_from(call.path, answer) - (state.places(HOST).keys() - landing_on_host(state.under_way.values()))


@fact(0)
def component_write_refusable(setting: Setting, state: State, call: Write) -> bool:
    """Whether a write may be refused: storage is away or lacks nothing, or the host may not have all that the boundary needs, or not yet."""
    whole = needed_by(setting, call.path, call.length) <= state.certain(HOST) - landing_on_host(
        state.under_way.values()
    )
    return state.attached is False or not whole or not due_in_storage(setting, call)


# Rules


# No put of a plain cache is refused; what it reads stays by TIER-11.
@rule(
    "COMP-58",
    on=On.COMPONENT_WRITE,
    source="R-LIFE-04, R-SWA-08; design",
    reference="prefix.components.storing.write",
    allowed="a refusal while storage is away, and else what the host has; it lacks {component_write_unread}",
)
def a_write_reads_what_the_host_has(component_detached: bool, component_write_unread: Collection[At]) -> bool:
    """A write MUST be refused while storage is away, or where the host lacks some of what it would take. That it is on
    the device is not enough, nor that a running backup brings it, also where that counts from its beginning.
    """
    return not component_detached and not component_write_unread


# No put of a plain cache is refused.
@rule(
    "COMP-59",
    on=On.REFUSED_COMPONENT_WRITE,
    source="R-SWA-08, R-MA-07; design",
    reference="prefix.components.storing.write",
    allowed="a write: storage is there and lacks something, and the host has all that the boundary needs",
)
def a_refused_write_has_nothing_to_take_or_to_read(component_write_refusable: bool) -> bool:
    """A write MUST be refused only while storage is away, if storage lacks nothing, or if the host doesn't have all
    that its boundary needs, or a running backup still brings it. How much there is to take is no reason.
    """
    return component_write_refusable
