"""Calls on the host tier and on what is under way: evict the host, load back, advance, tick, storage, settle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.calls.tree import hosted_to, room_of
from kvlitmus.conformance.checker.tier_observation import TierObservation
from kvlitmus.conformance.checker.tier_state import COPIES, WITH_STORAGE, TierState, rest, storage_rest
from kvlitmus.conformance.ports.tiers import DONE, FETCH, LOAD, QUERY, Outcome
from kvlitmus.spec import effects as trees
from kvlitmus.spec.names import page_names
from kvlitmus.spec.policies import DELIVERIES, TICKS_AFTER_POLLS, TICKS_TO_REST
from kvlitmus.spec.seen import Seen as Observation
from kvlitmus.spec.state import Tree
from kvlitmus.spec.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def books_of(checker: Checker) -> TierState:
    """The books of a judge of a hierarchy."""
    assert checker.tiers is not None
    return checker.tiers


def seen(checker: Checker) -> TierObservation:
    """What was seen last."""
    assert isinstance(checker.before, TierObservation)
    return checker.before


def finish(checker: Checker, kinds: str, facts: dict[str, Any], tree: Tree, late: Any = None) -> None:
    """Finish a call whose rules ask how the tiers changed."""
    before = seen(checker)

    def changes(after: Observation, facts: dict[str, Any]) -> None:
        assert isinstance(after, TierObservation)
        books_of(checker).change_facts(facts, before, after)
        if late is not None:
            late(after, facts)

    checker.finish(kinds, facts, tree, changes)


def evict_host(checker: Checker, n: int) -> None:
    """Make room for ``n`` slots on the host."""
    books, before = books_of(checker), seen(checker)
    droppable = books.droppable(before)
    reclaimable: set[Any] = set()
    if checker.profile.host_duplicates == "reclaimed" and checker.config.write == "write_back":
        reclaimable = before.cached.keys() - books.held_sources().keys()
    answer = checker.call(f"evict_host({n})", "evict_host", n)
    facts: dict[str, Any] = {
        "host_asked": n,
        "host_droppable": len(droppable) * checker.size,
        "host_undroppable": frozenset(before.hosted.keys() - books.droppable(before, nodes=False) - reclaimable),
    }
    kinds = "evict_host"
    if answer is not None:
        facts["host_reported"] = checker.count(answer, "the number of slots dropped")
        checker.history[-1] += f" → {answer}"
        kinds = "evict_host+told"
    finish(checker, kinds, facts, checker.tree)


NO_LIMIT = 1 << 40
"""What a load back without a quota may load."""


def load_back(checker: Checker, key: Key, quota: int | None = None) -> None:
    """Load back what of a key is on the host alone, within a quota if there is one."""
    books, before = books_of(checker), seen(checker)
    paged = page_names(checker.names_of(key), checker.size)
    resident = trees.cached_prefix(checker.tree, paged)
    names = paged[resident : hosted_to(before, paged, resident)]
    room = room_of(checker, paged[:resident], names)
    newly = sum(not checker.tree.pages[name].locks for name in paged[:resident]) * checker.size
    if quota is None:
        answer = checker.call(f"load_back({key_text(key)})", "load_back", key)
    else:
        answer = checker.call(f"load_back_within({key_text(key)}, {quota})", "load_back_within", key, quota)
    on_device, given = checker.fields(answer, 2, "Loaded(before, slots)")
    facts: dict[str, Any] = {
        "load_wanted": len(names) * checker.size,
        "load_resident": resident * checker.size,
        "load_before": checker.count(on_device, "the units on the device before"),
        "load_threshold": checker.profile.load_threshold,
        "load_names": names,
        "load_room": room,
        "load_limit": NO_LIMIT if quota is None else quota - newly,
        "load_struck": books.failures.struck(LOAD),
    }
    if given is None:
        checker.history[-1] += " → None"
        books.blurred.update(paged[:resident])
        finish(checker, "refused_load_back", facts, checker.tree)
        return
    slots = facts["load_slots"] = checker.slots(given)
    tree = trees.touch(checker.tree, paged[:resident])
    if resident:
        tree = trees.split(tree, paged[resident - 1], renews=checker.renews)
    kinds = "load_back" if quota is None else "load_back+limited_load_back"
    finish(checker, kinds if names or slots else kinds + "+nothing", facts, tree)


def advance(checker: Checker, number: int, outcome: Outcome) -> None:
    """Let a job go on; what storage saw of it is noted."""
    books = books_of(checker)
    work = books.work[number]
    kind, store = work.job.kind, books.store
    store.clear_record()
    store.script(outcome)
    shown = "" if outcome == DONE else f", {outcome.how} {outcome.pages}"
    checker.call(f"advance({kind} {number}{shown})", "advance", number, outcome)
    store.script(DONE)
    if kind in COPIES and outcome.how == "fail":
        _advance_failed(checker, number)
    elif kind == LOAD and "layers" in checker.capabilities:
        _advance_layers(checker, number, outcome)
    elif kind in COPIES:
        work.landed = True
        finish(checker, "advance+copied", {}, checker.tree)
    elif kind == QUERY:
        _advance_query(checker, number)
    elif kind == FETCH:
        _advance_fetch(checker, number)
    else:
        well = books.fetches.puts_seen(work)
        books.fetches.put_refused |= outcome.how in ("short", "fail")

        def through(after: TierObservation, _: dict[str, Any]) -> None:
            job = after.jobs.get(number)
            if well and outcome == DONE and (job is None or job.landed):
                books.fetches.put_ended(work)

        finish(checker, "advance+put", {}, checker.tree, through)


def _advance_failed(checker: Checker, number: int) -> None:
    """A copy has failed: what it was to fill holds anything, and the cache has to say so until it ends the job."""
    work = books_of(checker).work[number]
    work.failed, work.layers = True, 0
    layered = work.job.kind == LOAD and "layers" in checker.capabilities

    def told(after: TierObservation, facts: dict[str, Any]) -> None:
        job = after.jobs.get(number)
        facts["told_failed"] = job is None or checker.flag(job.failed, "whether a job has failed")
        if layered:
            facts["layers_copied"] = work.layers
            ready = checker.count(checker.look("layers_ready", number), "the layers that may be read")
            facts["layers_told"] = ready if number in after.jobs else work.layers

    finish(checker, "advance+failed_copy+layered" if layered else "advance+failed_copy", {}, checker.tree, told)


def fail_copy(checker: Checker, kind: str, after: int) -> None:
    """A copy of this kind is going to fail."""
    checker.call(f"fail_copy({kind}, {after})", "fail_copy", kind, after)
    checker.finish("fault", {}, checker.tree)


def dependents(checker: Checker, number: int) -> list[int]:
    """The requests whose rows have pages of this load."""
    names = frozenset(books_of(checker).work[number].names)
    size = checker.size
    return [
        rid
        for rid, running in checker.requests.items()
        if not names.isdisjoint(page_names(running.path.names[: running.cached], size))
    ]


def _advance_layers(checker: Checker, number: int, outcome: Outcome) -> None:
    """A load has copied some layers, or all that were left."""
    work = books_of(checker).work[number]
    most = checker.count(checker.look("layers"), "how many layers there are")
    work.layers = min(most, work.layers + outcome.pages) if outcome.how == "part" else most
    work.landed = work.layers == most

    def told(after: TierObservation, facts: dict[str, Any]) -> None:
        facts["layers_copied"] = work.layers
        ready = checker.count(checker.look("layers_ready", number), "the layers that may be read")
        facts["layers_told"] = ready if number in after.jobs else work.layers

    finish(checker, "advance+copied+layered", {}, checker.tree, told)


def _advance_query(checker: Checker, number: int) -> None:
    """A query has asked storage."""
    books = books_of(checker)
    one, hit = books.fetches.query_seen(books.work[number])
    late = checker.profile.reserve == "hit"
    least = max(checker.config.threshold, checker.size)
    if one is not None and not one.over:
        one.hit = hit
        one.revoked = hit < least or late  # a late reservation may fail, until a fetch shows that it hasn't
    if one is None or late:
        finish(checker, "advance+zombie", {}, checker.tree)
        return

    def led(after: TierObservation, facts: dict[str, Any]) -> None:
        fresh = [books.work[job] for job in after.jobs if job not in before]
        length = books.fetches.fetch_of(one, fresh)  # not that of a newer prefetch of the same request
        if not one.over:
            facts.update(query_hit=hit, query_least=least, fetch_length=length)

    before = frozenset(seen(checker).jobs)
    finish(checker, "advance+zombie" if one.over else "advance+query", {}, checker.tree, led)


def _advance_fetch(checker: Checker, number: int) -> None:
    """A fetch has read from storage."""
    books = books_of(checker)
    one = books.fetches.fetch_seen(books.work[number])
    counted = one is not None and not one.over

    def reached(after: TierObservation, facts: dict[str, Any]) -> None:
        job = after.jobs.get(number)
        if one is None or one.over:
            return
        if job is not None and not job.landed:
            facts.update(fetch_done=job.done, fetch_got=one.got)
        else:
            one.ended = True
            books.fetches.fresh_end.add(one.rid)

    finish(checker, "advance+fetch" if counted else "advance+zombie", {}, checker.tree, reached)


def tick(checker: Checker, *, detached: bool = False) -> None:
    """A tick of the scheduler."""
    books = books_of(checker)
    books.store.clear_record()
    checker.call("tick()", "tick")
    books.fetches.puts_seen(None)
    kinds = "tick"
    if checker.profile.reserve == "submit":
        kinds += "+prefetch_tick"
    if detached:
        kinds += "+detached"
    before, ending = seen(checker), books.fetches.ending()
    for one in ending:
        books.fetches.over(one)  # it holds nothing and counts nothing from now on
    if ending:
        kinds += "+commit"

    def rested(after: TierObservation, facts: dict[str, Any]) -> None:
        facts["storage_work"], facts["moving_left"] = storage_rest(books), after.moving
        may: set[Any] = set()
        missing: list[Any] = []
        for one in ending:
            books.fetches.committed(one, facts, before, after)
            may |= facts["commit_range"]
            missing += facts["commit_missing"]
        if len(ending) > 1:
            for one in ending:
                books.fetches.loaded[one.rid] = (0, books.fetches.loaded[one.rid][1])
        if ending:
            facts["commit_range"], facts["commit_missing"] = frozenset(may), missing

    if not books.work:
        kinds += "+quiet_tick"
    finish(checker, kinds, {}, checker.tree, rested)
    books.fetches.ticked()


def attach(checker: Checker, *, on: bool) -> None:
    """Attach the suite's storage, or detach it."""
    books = books_of(checker)
    before, had = books.attached, len(books.store.contents)
    if on:
        answer = checker.call("attach(the suite's storage)", "attach", books.store)
    else:
        answer = checker.call("detach()", "detach")
    accepted = checker.flag(answer, "whether that was done")
    checker.history[-1] += f" → {accepted}"
    if accepted:
        books.attached = on
        books.whole_time = False
    if accepted and not on:
        books.fetches.detached()
        for work in books.work.values():
            if work.job.kind in WITH_STORAGE:
                work.sources = {}
    facts: dict[str, Any] = {
        "attaching": on,
        "attached_before": before,
        "accepted": accepted,
        "store_before": had,
        "store_after": len(books.store.contents),
    }
    finish(checker, "attach" if on else "detach", facts, checker.tree)
    if accepted and not on:
        tick(checker, detached=True)


def spoiled(checker: Checker, name: str, *, lost: bool) -> None:
    """Storage has lost a page or cut it short: nobody can be blamed for not finding it."""
    checker.history.append(f"storage {'loses' if lost else 'cuts short'} {name[:12]}…")
    books_of(checker).fetches.put_refused = True


def ticks(checker: Checker) -> None:
    """One more tick; several in a row are one line for the reader."""
    history = checker.history
    before = history[-1] if history else ""
    tick(checker)
    if before.startswith("tick()") and history[-1] == "tick()":
        history.pop()
        history[-1] = f"tick() ×{int(before.partition('×')[2] or 1) + 1}"


def deliver(checker: Checker) -> None:
    """Deliver everything that is ready, and tick, until nothing changes any more."""
    delivered = 0
    quiet = 0
    while quiet < TICKS_TO_REST and delivered < DELIVERIES:
        ready = [number for number, job in seen(checker).jobs.items() if job.ready and not job.landed]
        if ready:
            advance(checker, ready[0], DONE)
            delivered += 1
            continue
        ticks(checker)
        quiet += 1
        if not seen(checker).jobs and quiet > 1:
            break


def settle(checker: Checker) -> None:
    """Deliver everything, tick, and let every request go on that waits; then nothing may be under way."""
    books = books_of(checker)
    deliver(checker)
    waiting = _last_polls(checker)
    for _ in range(TICKS_AFTER_POLLS):
        ticks(checker)
    books.fetches.drop_revoked()
    facts: dict[str, Any] = {"still_waiting": waiting}

    def rested(after: TierObservation, facts: dict[str, Any]) -> None:
        facts["work_left"] = rest(books)
        facts["moving_left"] = after.moving
        facts["pins_left"] = list(after.pins())
        idle = not checker.requests and not checker.receipts
        facts["protected_left"] = (after.sizes or (0, 0))[1] if idle else 0
        willing = books.whole_time and not books.fetches.put_refused and not waiting
        missing = books.acked - books.fetches.stored if willing else set()
        facts["unstored"] = [checker.names.prefix(name) for name in missing]

    checker.history.append("everything delivered, and a few ticks")
    checker.finish("settled", facts, checker.tree, rested)


def _last_polls(checker: Checker) -> list[int]:
    """Poll for every request that waits; those that still have to wait."""
    from kvlitmus.conformance.checker.calls import fetch

    books = books_of(checker)
    return [rid for rid in sorted(books.fetches.waiting) if not fetch.poll(checker, rid)]
