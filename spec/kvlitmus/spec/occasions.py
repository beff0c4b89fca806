"""Occasions: what a step is, and how it ended, as rules name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvlitmus.spec import (
    calls,
    component_calls,
    hash_calls,
    misuse_calls,
    rank_calls,
    sparse_calls,
    store_calls,
    tier_calls,
)
from kvlitmus.spec.interface.tiers import FETCH, LOAD, QUERY
from kvlitmus.spec.on import On
from kvlitmus.spec.prefetch_advance import ending, gate_of, known_part
from kvlitmus.spec.prefetch_plan import Planned, PlanPrefetch
from kvlitmus.spec.seen import Seen, TierSeen
from kvlitmus.spec.setting import Setting
from kvlitmus.spec.state import State
from kvlitmus.spec.tier_state import COPIES

PLAIN: dict[type, tuple[On, ...]] = {
    calls.ExtendOne: (On.EXTEND_ONE,),
    calls.Free: (On.FREE,),
    calls.FreeInGroup: (On.GROUP_OPEN,),
    calls.EndGroup: (On.FREE, On.GROUP_END),
    calls.CloseGroup: (On.GROUP_CLOSED,),
    calls.Reset: (On.RESET,),
    calls.Match: (On.MATCH,),
    calls.Insert: (On.INSERT,),
    calls.Lock: (On.LOCK,),
    calls.Unlock: (On.UNLOCK,),
    calls.Evict: (On.EVICT,),
    calls.PlayedAgain: (On.AGAIN,),
    hash_calls.HashPieces: (On.HASH_PIECES,),
    hash_calls.HashPair: (On.HASH_PAIR,),
    hash_calls.HashNamespaces: (On.HASH_NAMESPACES,),
    hash_calls.CompareHashes: (On.HASHED,),
    store_calls.StoreClear: (On.STORE_CLEAR,),
    store_calls.StoreCrash: (On.STORE_CRASH, On.STORE_LOOKUP),
    store_calls.StoreRace: (On.STORE_RACE,),
    sparse_calls.SparseRead: (On.SPARSE_READ,),
    sparse_calls.SparseFree: (On.SPARSE_FREE,),
    sparse_calls.SparseAdmit: (On.SPARSE_ADMIT,),
    sparse_calls.SparseSwap: (On.SPARSE_SWAP,),
    sparse_calls.SparseMisuse: (On.SPARSE_MISUSE,),
    sparse_calls.SparseConnect: (On.SPARSE_CONNECT,),
    sparse_calls.SparseCopied: (On.SPARSE_COPIED,),
    sparse_calls.SparseReady: (On.SPARSE_READY,),
    sparse_calls.SparseReserve: (On.SPARSE_RESERVE,),
    sparse_calls.SparseTransferred: (On.SPARSE_TRANSFERRED,),
    component_calls.ComponentFree: (On.COMPONENT_FREE,),
    component_calls.ComponentMatch: (On.COMPONENT_MATCH,),
    component_calls.ComponentInsert: (On.COMPONENT_INSERT,),
    component_calls.ComponentLock: (On.COMPONENT_LOCK,),
    component_calls.ComponentUnlock: (On.COMPONENT_UNLOCK,),
    component_calls.ComponentEvict: (On.COMPONENT_EVICT,),
    component_calls.ComponentReset: (On.COMPONENT_RESET,),
    component_calls.ComponentFound: (On.COMPONENT_FOUND,),
    component_calls.ComponentSettled: (On.COMPONENT_SETTLED,),
    component_calls.ComponentCommit: (On.COMPONENT_COMMIT,),
    component_calls.ComponentAbort: (On.COMPONENT_ABORT,),
    component_calls.ComponentCopied: (On.COMPONENT_COPIED,),
    component_calls.ComponentEvictHost: (On.COMPONENT_EVICT_HOST,),
    component_calls.ComponentAttach: (On.COMPONENT_ATTACH,),
    component_calls.ComponentDetach: (On.COMPONENT_DETACH,),
    component_calls.ComponentWritten: (On.COMPONENT_WRITTEN,),
    component_calls.ComponentFinish: (On.COMPONENT_FINISH,),
    misuse_calls.DoubleFree: (On.MISUSE, On.DOUBLE_FREE),
    misuse_calls.RepeatedFree: (On.MISUSE, On.REPEATED_FREE),
    misuse_calls.PartialFree: (On.MISUSE, On.PARTIAL_FREE),
    misuse_calls.StaleUnlock: (On.MISUSE, On.STALE_UNLOCK),
    misuse_calls.Scribble: (On.MISUSE, On.SCRIBBLE),
    misuse_calls.OddAlloc: (On.MISUSE, On.ODD_ALLOC),
    misuse_calls.Forbidden: (On.MISUSE, On.FORBIDDEN),
    misuse_calls.OtherWidth: (On.MISUSE, On.OTHER_WIDTH),
    misuse_calls.Beyond: (On.MISUSE, On.BEYOND),
    rank_calls.RankStart: (On.RANKS_STEP,),
    rank_calls.RankLocal: (On.RANKS_STEP,),
    tier_calls.EvictHost: (On.EVICT_HOST,),
    tier_calls.Settled: (On.SETTLED,),
    tier_calls.Poll: (On.POLL,),
    tier_calls.TellLoaded: (On.LOADED,),
    tier_calls.Abandon: (On.ABANDON,),
    tier_calls.FailCopy: (On.FAULT,),
    tier_calls.FailHostAlloc: (On.FAULT,),
    tier_calls.FailMemory: (On.FAULT,),
    tier_calls.OutOfMemory: (On.OUT_OF_MEMORY,),
    tier_calls.SetClock: (On.CLOCK,),
}
"""Calls that are one occasion whatever they answer."""

REFUSABLE: dict[type, tuple[tuple[On, ...], tuple[On, ...]]] = {
    calls.Alloc: ((On.ALLOC,), (On.REFUSED_ALLOC,)),
    calls.ExtendBatch: ((On.EXTEND_BATCH,), (On.REFUSED_EXTEND,)),
    calls.Begin: ((On.BEGIN,), (On.REFUSED_BEGIN,)),
    calls.Grow: ((On.GROW,), (On.REFUSED_GROW,)),
}
"""Calls that may be refused: what they are when granted, and when refused."""

__all__ = ["On", "occasions_of"]


def hashes_occasions(call: hash_calls.PageHashes, answer: object) -> tuple[On, ...]:
    """Hashing is a refusal when it raised, and when it should have."""
    if not call.hashable:
        return (On.HASH_REFUSAL,)
    return (On.HASH_REFUSAL, On.RAISED) if isinstance(answer, calls.Raised) else (On.PAGE_HASHES,)


def plan_occasions(_: PlanPrefetch, answer: Planned) -> tuple[On, ...]:
    """A plan is one whether it was decided or raised."""
    return (On.PLAN_PREFETCH,) if answer.plan is not None else (On.PLAN_PREFETCH, On.RAISED)


def store_occasions(call: store_calls.StoreBatch, answer: object) -> tuple[On, ...]:
    """A batch is one whether it is answered or raised; one that was asked for before it is read is a lookup."""
    occasions: tuple[On, ...] = (BATCHES[type(call)],)
    if isinstance(call, store_calls.StoreGet) and call.leading is not None:
        occasions += (On.STORE_LOOKUP,)
    failed = isinstance(answer, calls.Raised) or (isinstance(answer, store_calls.PutDone) and answer.accepted is None)
    return (*occasions, On.RAISED) if failed else occasions


def sparse_occasions(call: sparse_calls.SparseRequest, answer: sparse_calls.SparseDone) -> tuple[On, ...]:
    """A request for slots of a row is granted or refused, one that is to be staged or written to like any other."""
    if call.peer:
        if answer.slots is None:
            return (On.REFUSED_SPARSE_REQUEST, On.REFUSED_SPARSE_PREALLOC)
        return (On.SPARSE_REQUEST, On.SPARSE_PREALLOC)
    if answer.slots is None:
        return (On.REFUSED_SPARSE_REQUEST, On.REFUSED_SPARSE_STAGE) if call.staged else (On.REFUSED_SPARSE_REQUEST,)
    if call.length:
        return (On.SPARSE_REQUEST, On.SPARSE_BACKUP)
    return (On.SPARSE_REQUEST, On.SPARSE_STAGE) if call.staged else (On.SPARSE_REQUEST,)


def sparse_grow_occasions(_: sparse_calls.SparseGrow, answer: sparse_calls.SparseDone) -> tuple[On, ...]:
    """A buffer grows, or the device has no room."""
    return (On.SPARSE_GROW,) if answer.accepted else (On.REFUSED_SPARSE_GROW,)


def ranks_occasions(call: rank_calls.RankAsk, answer: rank_calls.Together) -> tuple[On, ...]:
    """A call on ranks is one of its kind; where a rank is gone, nothing but that is said of it."""
    if any(trace.ended == rank_calls.ABSENT for trace in answer.traces):
        return (On.RANKS_STEP, On.RANKS_LOST)
    own = ASKED.get(call.ask.what)
    return (On.RANKS_STEP, On.RANKS_ASK) if own is None else (On.RANKS_STEP, On.RANKS_ASK, own)


ASKED: dict[str, On] = {
    "match": On.RANKS_MATCH,
    "acks": On.RANKS_ACKS,
    "prefetch": On.RANKS_PREFETCH,
    "hit": On.RANKS_HIT,
    "poll": On.RANKS_POLL,
    "load": On.RANKS_LOAD,
}
"""What ranks are asked, of which rules of its own speak."""


def extend_occasions(call: calls.Extend | calls.ExtendBatch, answer: object) -> tuple[On, ...]:
    """Slots for further tokens, by one port or the other, are granted or refused."""
    if answer is None:
        return (On.REFUSED_EXTEND,)
    return (On.ALLOC_DECODE,) if call.decode else (On.ALLOC_EXTEND,)


def component_alloc_occasions(_: component_calls.ComponentAlloc, answer: component_calls.After) -> tuple[On, ...]:
    """Entries of several components are granted or refused."""
    return (On.REFUSED_COMPONENT_ALLOC,) if answer.answer is None else (On.COMPONENT_ALLOC,)


def component_prefetch_occasions(_: component_calls.ComponentPrefetch, answer: component_calls.After) -> tuple[On, ...]:
    """Memory for a prefetch of several components is reserved or refused."""
    given = answer.answer
    refused = isinstance(given, component_calls.Reserved) and given.places is None
    return (On.REFUSED_COMPONENT_PREFETCH,) if refused else (On.COMPONENT_PREFETCH,)


def component_back_up_occasions(_: component_calls.ComponentBackUp, answer: component_calls.After) -> tuple[On, ...]:
    """A backup of several components begins, or is refused."""
    given = answer.answer
    refused = isinstance(given, component_calls.Copying) and given.places is None
    return (On.REFUSED_COMPONENT_BACK_UP,) if refused else (On.COMPONENT_BACK_UP,)


def component_load_occasions(_: component_calls.ComponentLoad, answer: component_calls.After) -> tuple[On, ...]:
    """A load back of several components begins, or is refused."""
    given = answer.answer
    refused = isinstance(given, component_calls.Copying) and given.places is None
    return (On.REFUSED_COMPONENT_LOAD,) if refused else (On.COMPONENT_LOAD,)


def component_write_occasions(_: component_calls.ComponentWrite, answer: component_calls.After) -> tuple[On, ...]:
    """A write to storage begins, or is refused."""
    given = answer.answer
    refused = isinstance(given, component_calls.Writing) and given.ends is None
    return (On.REFUSED_COMPONENT_WRITE,) if refused else (On.COMPONENT_WRITE,)


def component_start_occasions(_: component_calls.ComponentStart, answer: component_calls.After) -> tuple[On, ...]:
    """A request begins, or is refused."""
    return (On.REFUSED_COMPONENT_START,) if answer.answer is None else (On.COMPONENT_START,)


def component_grow_occasions(_: component_calls.ComponentGrow, answer: component_calls.After) -> tuple[On, ...]:
    """A request goes on, or is refused to."""
    held = answer.answer
    assert isinstance(held, component_calls.Holding)
    return (On.COMPONENT_GROW,) if held.granted else (On.REFUSED_COMPONENT_GROW,)


def publish_occasions(call: calls.Publish, _: object) -> tuple[On, ...]:
    """All that a request has is published, or a part."""
    return (On.PUBLISH, On.PUBLISH_ALL) if call.upto is None else (On.PUBLISH, On.PUBLISH_UPTO)


def end_occasions(call: calls.End, _: object) -> tuple[On, ...]:
    """A request is aborted, or finished, all of it or a part."""
    if not call.keep:
        return (On.END, On.ABORT)
    return (On.END, On.FINISH) if call.upto is None else (On.END, On.FINISH, On.END_UPTO)


BATCHES: dict[type, On] = {
    store_calls.StoreExists: On.STORE_EXISTS,
    store_calls.StoreGet: On.STORE_GET,
    store_calls.StorePut: On.STORE_PUT,
    store_calls.StoreGetInto: On.STORE_GET_INTO,
}
"""The batches of a page store."""

SPECIAL: dict[type, Callable[[Any, Any], tuple[On, ...]]] = {
    hash_calls.PageHashes: hashes_occasions,
    PlanPrefetch: plan_occasions,
    rank_calls.RankAsk: ranks_occasions,
    calls.Extend: extend_occasions,
    calls.Publish: publish_occasions,
    calls.End: end_occasions,
    component_calls.ComponentAlloc: component_alloc_occasions,
    component_calls.ComponentPrefetch: component_prefetch_occasions,
    component_calls.ComponentBackUp: component_back_up_occasions,
    component_calls.ComponentLoad: component_load_occasions,
    component_calls.ComponentWrite: component_write_occasions,
    component_calls.ComponentStart: component_start_occasions,
    component_calls.ComponentGrow: component_grow_occasions,
    **dict.fromkeys(BATCHES, store_occasions),
    sparse_calls.SparseRequest: sparse_occasions,
    sparse_calls.SparseGrow: sparse_grow_occasions,
}
"""Calls of which more than a refusal is told apart."""


def occasions_of(
    call: Any, answer: Any, state: State | None = None, setting: Setting | None = None, before: Seen | None = None
) -> tuple[On, ...]:
    """What a call is that was answered so.

    Of calls on the tiers it depends on what was known (``state``) and seen ``before``, too.
    """
    plain = PLAIN.get(type(call))
    if plain is not None:
        return plain
    refusable = REFUSABLE.get(type(call))
    if refusable is not None:
        return refusable[answer is None]
    special = SPECIAL.get(type(call))
    if special is not None:
        return special(call, answer)
    assert state is not None
    return BELOW[type(call)](state, setting, call, answer, before)


def _advance(state: State, setting: Setting, call: tier_calls.Advance, answer: None, before: Seen) -> tuple[On, ...]:
    """A job went on: which kind it is, and whether anybody waits for it."""
    assert state.tiers is not None
    tiers = state.tiers
    work = tiers.work[call.job]
    kind = work.job.kind
    if kind in COPIES:
        how = On.FAILED_COPY if call.outcome.how == "fail" else On.COPIED
        return (how, On.LAYERED) if kind == LOAD and call.layers is not None else (how,)
    if kind not in (QUERY, FETCH):
        return (On.PUT,)
    number = tiers.prefetches.of_job.get(call.job)
    waited_for = number is not None and not tiers.prefetches.by_number[number].over
    if not waited_for or (kind == QUERY and setting.profile.reserve == "hit"):
        return (On.ZOMBIE,)
    return (On.QUERY,) if kind == QUERY else (On.FETCH,)


def _tick(state: State, setting: Setting, call: tier_calls.Tick, answer: None, before: Seen) -> tuple[On, ...]:
    """A tick: whether it makes room on the host, ends prefetches, follows a detach, or had nothing to do."""
    assert state.tiers is not None
    kinds = [On.TICK]
    commits = bool(ending(state, setting))
    if setting.profile.reserve == "submit" and setting.profile.backup_moment == "insert" and not commits:
        kinds.append(On.PREFETCH_TICK)
    if call.detached:
        kinds.append(On.DETACHED)
    if commits:
        kinds.append(On.COMMIT)
    if not state.tiers.work and not state.tiers.paths:
        kinds.append(On.QUIET_TICK)
    return tuple(kinds)


def _prefetch(state: State, setting: Setting, call: tier_calls.Prefetch, answer: Any, before: Seen) -> tuple[On, ...]:
    """A prefetch was asked for: whether it began, and whether a gate was shut."""
    if answer.started:
        return (On.PREFETCH,)
    assert isinstance(before, TierSeen)
    assert state.tiers is not None
    why = gate_of(
        state.tiers, before, setting, call.rid, len(call.path.names), len(known_part(before, call.path.pages))
    )
    return (On.REFUSED_PREFETCH, On.GATED_PREFETCH) if why else (On.REFUSED_PREFETCH,)


def _load_back(state: State, setting: Setting, call: tier_calls.LoadBack, answer: Any, before: Seen) -> tuple[On, ...]:
    """A load back: whether it was declined, or had a quota."""
    if answer.slots is None:
        return (On.REFUSED_LOAD_BACK,)
    return (On.LOAD_BACK,) if call.quota is None else (On.LOAD_BACK, On.LIMITED_LOAD_BACK)


def _attach(state: State, setting: Setting, call: tier_calls.Attach, answer: bool, before: Seen) -> tuple[On, ...]:
    """Storage came or went."""
    return (On.ATTACH,) if call.on else (On.DETACH,)


BELOW: dict[type, Callable[..., tuple[On, ...]]] = {
    tier_calls.Advance: _advance,
    tier_calls.Tick: _tick,
    tier_calls.Prefetch: _prefetch,
    tier_calls.LoadBack: _load_back,
    tier_calls.Attach: _attach,
}
"""Calls on the tiers whose occasions depend on what is known."""
