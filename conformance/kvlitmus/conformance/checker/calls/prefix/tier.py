"""Calls on the host tier and on what is under way: evict the host, load back, advance, tick, storage, settle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.prefix import fetch
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.spec.interface.tiers import DONE, LOAD, Loaded, Outcome
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.storage_advance import lose
from kvlitmus.spec.prefix.work_calls import Advance, Attach, Detach, EvictHost, FailCopy, LoadBack, Settled, Tick
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.policies import DELIVERIES, QUIET_TICKS, TICKS_AFTER_POLLS, TICKS_TO_REST
from kvlitmus.spec.words.units import Key, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def seen(checker: Checker) -> TierSeen:
    """What was seen last."""
    assert isinstance(checker.before, TierSeen)
    return checker.before


def store_of(checker: Checker) -> HarnessStore:
    """The storage that the suite brings."""
    assert checker.store is not None
    return checker.store


def evict_host(checker: Checker, n: int) -> None:
    """Make room for ``n`` slots on the host."""
    answer = checker.call(f"evict_host({n})", "evict_host", n)
    told = None
    if answer is not None:
        told = checker.count(answer, "the number of slots dropped")
        checker.history[-1] += f" → {answer}"
    checker.step(EvictHost(Tokens(n)), told)


def load_back(checker: Checker, key: Key, quota: int | None = None) -> None:
    """Load back what of a key is on the host alone, within a quota if there is one."""
    path = checker.path(key)
    if quota is None:
        answer = checker.call(f"load_back({key_text(key)})", "load_back", key)
    else:
        answer = checker.call(f"load_back_within({key_text(key)}, {quota})", "load_back_within", key, quota)
    on_device, given = checker.fields(answer, 2, "Loaded(before, slots)")
    before = checker.count(on_device, "the units on the device before")
    checker.step(LoadBack(path, quota), Loaded(before, checker.slots_or_none(given)))


def advance(checker: Checker, number: int, outcome: Outcome) -> None:
    """Let a job go on; what storage saw of it is noted."""
    kind, store = checker.below.work[number].job.kind, store_of(checker)
    store.script(outcome)
    shown = "" if outcome == DONE else f", {outcome.how} {outcome.pages}"
    checker.call(f"advance({kind} {number}{shown})", "advance", number, outcome)
    store.script(DONE)
    layers = None
    if kind == LOAD and "layers" in checker.capabilities:
        layers = 0 if outcome.how == "fail" else checker.count(checker.look("layers"), "how many layers there are")
    checker.step(Advance(number, outcome, layers), None)


def fail_copy(checker: Checker, kind: str, after: int) -> None:
    """A copy of this kind is going to fail."""
    checker.call(f"fail_copy({kind}, {after})", "fail_copy", kind, after)
    checker.step(FailCopy(kind, after), None)


def dependents(checker: Checker, number: int) -> list[int]:
    """The requests whose rows have pages of this load."""
    names = frozenset(checker.below.work[number].names)
    size = checker.size
    return [
        rid
        for rid, running in checker.requests.items()
        if not names.isdisjoint(page_names(running.path.names[: running.cached], size))
    ]


def tick(checker: Checker, *, detached: bool = False) -> None:
    """A tick of the scheduler."""
    checker.call("tick()", "tick")
    checker.step(Tick(detached), None)


def attach(checker: Checker, *, on: bool, storage: int | None = None) -> None:
    """Attach the suite's storage, or detach it: the one that was attached last, or the one of this number.

    A tick follows if it was detached.
    """
    if exchanged(checker, on=on, storage=storage) and not on:
        tick(checker, detached=True)


def exchanged(checker: Checker, *, on: bool, storage: int | None = None) -> bool:
    """The same without the tick; whether it was done."""
    was = checker.below.storage
    number = was if storage is None else storage
    store = checker.storage(number)
    stored = {one: len(checker.storage(one).contents) for one in (was, number)}
    which = "the suite's storage" if not number else f"the suite's storage {number + 1}"
    answer = checker.call(f"attach({which})", "attach", store) if on else checker.call("detach()", "detach")
    accepted = checker.flag(answer, "whether that was done")
    checker.history[-1] += f" → {accepted}"
    now = number if on and accepted else was
    checker.store = checker.storage(now)
    checker.step(Attach(stored[now], now) if on else Detach(stored[now]), accepted)
    return accepted


def spoiled(checker: Checker, name: str, *, lost: bool) -> None:
    """Storage has lost a page or cut it short: nobody can be blamed for not finding it."""
    checker.history.append(f"storage {'loses' if lost else 'cuts short'} {name[:12]}…")
    checker.state = checker.state._replace(tiers=lose(checker.below, name))


def ticks(checker: Checker) -> None:
    """One more tick; several in a row are one line for the reader."""
    tick(checker)
    merge(checker.history)


def merge(history: list[str]) -> None:
    """A call that is the same as the one before it makes one line with that."""
    if len(history) > 1:
        before, _, times = history[-2].partition(" ×")
        if before == history[-1]:
            history.pop()
            history[-1] = f"{before} ×{int(times or 1) + 1}"


def deliver(checker: Checker) -> None:
    """Deliver everything that is ready, and tick, until nothing changes any more: a few times where no job is left."""
    delivered = 0
    quiet = 0
    while quiet < TICKS_TO_REST and delivered < DELIVERIES:
        ready = [number for number, job in seen(checker).jobs.items() if job.ready and not job.landed]
        if ready:
            advance(checker, ready[0], DONE)
            merge(checker.history)
            delivered += 1
            continue
        ticks(checker)
        quiet += 1
        if not seen(checker).jobs and quiet >= QUIET_TICKS:
            break


def settle(checker: Checker) -> None:
    """Deliver everything, tick, and let every request go on that waits; then nothing may be under way."""
    deliver(checker)
    waiting = [rid for rid in sorted(checker.below.prefetches.waiting) if not fetch.poll(checker, rid)]
    for _ in range(TICKS_AFTER_POLLS):
        ticks(checker)
    checker.history.append("everything delivered, and a few ticks")
    checker.step(Settled(tuple(waiting)), None)
