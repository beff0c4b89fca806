"""A flush: everything that nobody protects is forgotten, while requests run; or the cache refuses until they have ended."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.units import Name, PageNo


@fact(0)
def kept_by_flush(state: State) -> AbstractSet[Name]:
    """What was protected, before the call."""
    if state.table:
        return {block.name for block in state.table.values() if block.holders}
    return {name for name, page in state.device.pages.items() if page.locks}


@fact(0)
def idle(state: State) -> bool:
    """Whether no request runs on the device, no receipt is out, and nobody owns a page."""
    return not (state.requests or state.receipts or state.owners)


@rule(
    "EVICT-25",
    on=(On.FLUSH,),
    source="vllm#12284, vllm#28827",
    reference="prefix.rows.flush",
    allowed="{kept_by_flush} cached, where it was, and nothing else",
)
def a_flush_leaves_what_is_protected(
    kept_by_flush: AbstractSet[Name], cached_before: Mapping[Name, PageNo], cached_after: Mapping[Name, PageNo]
) -> bool:
    """A flush MUST forget all that nobody protects, and leave what requests and receipts protect cached, where it was."""
    return cached_after == {name: page for name, page in cached_before.items() if name in kept_by_flush}


@rule(
    "EVICT-26",
    on=(On.FLUSH, On.REFUSED_FLUSH),
    source="vllm#12284, vllm#34382",
    reference="prefix.rows.flush",
    allowed="a flush, since nobody has anything on the device",
    premise="idle",
)
def an_idle_cache_can_be_flushed(idle: bool, said_yes: bool) -> bool:
    """A flush MUST NOT be refused while no request runs on the device, no receipt is out, and nobody owns a page."""
    return said_yes or not idle
