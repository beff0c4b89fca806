"""What calls on the tiers are, where that depends on what was known and seen before them."""

from __future__ import annotations

from kvlitmus.spec.interface.tiers import FETCH, LOAD, QUERY, Loaded, Prefetched
from kvlitmus.spec.law.occasions import occasions_by_state
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.partial import known_part
from kvlitmus.spec.prefix.prefetch_advance import ending, gate_of
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.prefix.work_calls import Advance, LoadBack, Prefetch, Tick
from kvlitmus.spec.words.setting import Setting


@occasions_by_state(Advance)
def _advance(state: State, setting: Setting, call: Advance, answer: None, before: Seen) -> tuple[On, ...]:
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


@occasions_by_state(Tick)
def _tick(state: State, setting: Setting, call: Tick, answer: None, before: Seen) -> tuple[On, ...]:
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


@occasions_by_state(Prefetch)
def _prefetch(
    state: State, setting: Setting, call: Prefetch[int | None], answer: Prefetched, before: Seen
) -> tuple[On, ...]:
    """A prefetch was asked for: whether it began, and whether a gate was shut."""
    if answer.started:
        return (On.PREFETCH,)
    assert isinstance(before, TierSeen)
    assert state.tiers is not None
    known = len(known_part(state, call.path.pages)) if call.start is None else call.start // setting.size
    why = gate_of(state.tiers, before, setting, call.rid, len(call.path.names), known)
    return (On.REFUSED_PREFETCH, On.GATED_PREFETCH) if why else (On.REFUSED_PREFETCH,)


@occasions_by_state(LoadBack)
def _load_back(state: State, setting: Setting, call: LoadBack, answer: Loaded, before: Seen) -> tuple[On, ...]:
    """A load back: whether it was declined, or had a quota."""
    if answer.slots is None:
        return (On.REFUSED_LOAD_BACK,)
    return (On.LOAD_BACK,) if call.quota is None else (On.LOAD_BACK, On.LIMITED_LOAD_BACK)
