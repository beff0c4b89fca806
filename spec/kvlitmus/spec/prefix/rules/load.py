"""Load back: from the host to the device, before a request that needs it.

All that is cached on the host behind what the device has comes back, or nothing does.  The pages count
as the tree's at once; their contents are right when the copy has landed, and until the cache has taken
note of that both ends of the copy are protected.

A copy can fail, where it is to begin or under way.  A load back whose copy can't begin is declined.  One that
fails under way is told as failed, so that whoever waits for it gives up and computes; once it has ended, its pages
are on the host alone, as before, or another load brings them.  A cache may try again as often as it likes, and has to
where somebody else has a lock on the pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from kvlitmus.spec.interface.tiers import BACKUP, LOAD, Loaded
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.evictable import certainly_evictable
from kvlitmus.spec.prefix.partial import cached_pages, cached_range, free_least, run_of
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import tier as _tier  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.prefix.work_calls import Advance, LoadBack
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tokens, page_slots

NO_LIMIT = Tokens(1 << 40)
"""What a load back without a quota may load."""


@fact(0)
def resident_pages(state: State, setting: Setting, call: LoadBack, answer: Loaded) -> Sequence[Name] | Unknown:
    """The pages of the key that were on the device, before the call."""
    paged = call.path.pages
    least, most = cached_range(state, paged)
    if least < most and not answer.slots:
        return UNKNOWN
    return paged[: min(max(answer.before // setting.size, least), most)]  # which it was, the answer says


@fact(0, ports=("tiers",))
def load_names(state: State, call: LoadBack, resident_pages: Sequence[Name]) -> Sequence[Name] | Unknown:
    """Names of the pages that were to be loaded, in order."""
    at = len(resident_pages)
    sure, possible = run_of(call.path.pages[at:], state.host)
    return call.path.pages[at : at + sure] if sure == possible else UNKNOWN


@fact(0)
def load_wanted(load_names: Sequence[Name], setting: Setting) -> Tokens:
    """Units that were on the host alone, directly behind those on the device, before the call."""
    return Tokens(len(load_names) * setting.size)


@fact(0)
def load_slots(answer: Loaded) -> Sequence[Slot] | Unknown:
    """The device slots that the load back returned."""
    return UNKNOWN if answer.slots is None else tuple(map(Slot, answer.slots))


@fact(0)
def load_before(answer: Loaded) -> Tokens:
    """Units that the load back says were on the device before."""
    return Tokens(answer.before)


@fact(0)
def load_resident(resident_pages: Sequence[Name], setting: Setting) -> Tokens:
    """Units of the key that were on the device, before the call."""
    return Tokens(len(resident_pages) * setting.size)


@fact(0)
def load_end(call: LoadBack, load_before: Tokens, load_slots: Sequence[Slot]) -> Tokens:
    """Where the load back ends, in units of the key."""
    return Tokens(load_before + len(load_slots)) if call.reach is None else call.reach.end


@fact(0, ports=("tiers",))
def load_ends(state: State, setting: Setting, call: LoadBack, load_slots: Sequence[Slot]) -> tuple[Tokens, Tokens]:
    """Where what device and host have together ends, before the call: certainly, and possibly; anywhere, where nothing is loaded."""
    if call.reach is not None:
        return call.reach.least, call.reach.most
    if not load_slots:
        return Tokens(0), NO_LIMIT
    sure, possible = run_of(call.path.pages, state.device, state.host)
    return Tokens(sure * setting.size), Tokens(possible * setting.size)


@fact(0)
def load_is_bounded(call: LoadBack, load_slots: Sequence[Slot]) -> bool:
    """Whether something says where the load back ends: other components do, and without them what is loaded."""
    return call.reach is not None or bool(load_slots)


@fact(0)
def load_bound(call: LoadBack) -> str:
    """What bounds a load back, in words, where other components have a say."""
    if call.reach is None:
        return ""
    lacking = f"; {', '.join(call.reach.lacking)} lack what its end needs" if call.reach.lacking else ""
    return f", the largest admitted boundary behind the hit that both tiers make valid for all components{lacking}"


@fact(0)
def load_threshold(setting: Setting) -> Tokens:
    """Units below which the profile declines a load back."""
    return Tokens(setting.profile.load_threshold)


@fact(0, ports=("tiers",))
def load_least(state: State, setting: Setting, call: LoadBack) -> Tokens:
    """Units that were on the host alone behind those on the device, before the call: so many certainly."""
    return Tokens(min(least for least, _ in _loads(state, call)) * setting.size)


@fact(0, ports=("tiers",))
def load_most(state: State, setting: Setting, call: LoadBack) -> Tokens:
    """The same: so many possibly."""
    return Tokens(max(most for _, most in _loads(state, call)) * setting.size)


def _loads(state: State, call: LoadBack) -> Sequence[tuple[int, int]]:
    """How many pages there were to load, certainly and possibly, wherever what is on the device may have ended."""
    least, most = cached_range(state, call.path.pages)
    return [run_of(call.path.pages[at:], state.host) for at in range(least, most + 1)]


@fact(0)
def load_room(state: State, setting: Setting, call: LoadBack, tiers_seen_before: TierSeen) -> Tokens:
    """Device slots that were free or could be evicted, what is to be loaded and what it hangs on left out; at least so many."""
    paged = call.path.pages
    resident = paged[: cached_range(state, paged)[1]]
    if not setting.seen:
        return _room_unseen(state, setting, tiers_seen_before, resident)
    load_names = paged[len(resident) :][: run_of(paged[len(resident) :], state.host)[0]]
    locked = state._replace(device=effects.lock(state.device, resident[-1])) if resident else state
    evictable = certainly_evictable(locked, setting, tiers_seen_before, (*resident, *load_names))
    return Tokens((tiers_seen_before.free_count + evictable) * setting.size)


def _room_unseen(state: State, setting: Setting, seen: TierSeen, resident: Sequence[Name]) -> Tokens:
    """The same without a snapshot: what the counters say; without these, all that is neither owned nor protected."""
    back = setting.config.write == WRITE_BACK  # what leaves the device needs room on the host
    evictable = 0 if back or seen.sizes is None else max(0, seen.sizes.evictable - len(resident) * setting.size)
    if seen.available is not None or not setting.steps:
        return Tokens((seen.available or 0) + evictable)  # without steps nobody knows what copies protect
    kept = {name for name, page in state.device.pages.items() if page.locks}.union(resident)
    loose = 0 if back else cached_pages(state)[1] - len(kept)
    return Tokens(max(evictable, (free_least(state, setting) + loose) * setting.size))


@fact(0)
def load_limit(state: State, setting: Setting, call: LoadBack, answer: Loaded) -> Tokens:
    """The most units that the quota allows to load, what the load would newly lock taken off; of a refused one at least so many."""
    if call.quota is None:
        return NO_LIMIT
    least, most = cached_range(state, call.path.pages)
    at = min(max(answer.before // setting.size, least), most) if answer.slots else most
    newly = sum(not state.device.pages[name].locks for name in call.path.pages[:at])
    return Tokens(call.quota - newly * setting.size)


@fact(0)
def load_struck(below_before: Tiers, tiers_seen: TierSeen) -> bool:
    """Whether a copy could not begin during the call, as the suite had asked for."""
    return LOAD in below_before.failing and LOAD not in tiers_seen.failing


@fact(0)
def told_failed(tiers_seen: TierSeen, call: Advance) -> bool:
    """Whether a copy that failed is over, or listed as failed."""
    job = tiers_seen.jobs.get(call.job)
    return job is None or job.failed


@fact(0)
def layers_copied(expected: State, call: Advance) -> int:
    """How many layers of a load were copied; none of one that has failed."""
    tiers = expected.tiers
    assert tiers is not None
    work = next((one for one in (*tiers.work.values(), *tiers.ended) if one.job.id == call.job), None)
    return 0 if work is None else work.layers


@fact(0)
def layers_told(tiers_seen: TierSeen, call: Advance, layers_copied: int) -> int:
    """How many layers of a load the cache says may be read."""
    told = tiers_seen.layers_ready
    return layers_copied if told is None or call.job not in tiers_seen.jobs else told


@fact(3)
def appeared(cached_before: Mapping[Name, PageNo], cached_after: Mapping[Name, PageNo]) -> AbstractSet[Name]:
    """Names that were not on the device before the call and are after it."""
    return cached_after.keys() - cached_before.keys()


@fact(0)
def jobs_begun(below: Tiers) -> Sequence[str]:
    """Work that began during the call, as kinds."""
    return [work.job.kind for work in below.begun]


@fact(3)
def copies_failed(failed_backups: frozenset[Name], failed_loads: frozenset[Name]) -> bool:
    """Whether a backup or a load that failed ended with the call."""
    return bool(failed_backups or failed_loads)


@fact(3)
def failed_there(
    below: Tiers,
    hosted: Mapping[Name, PageNo],
    cached_after: Mapping[Name, PageNo],
    failed_backups: frozenset[Name],
    failed_loads: frozenset[Name],
) -> Sequence[Name]:
    """Pages of backups and loads that failed and ended, where these were to bring them though no other copy does."""
    ended = ((BACKUP, failed_backups, hosted), (LOAD, failed_loads, cached_after))
    return [name for kind, failed, there in ended for name in failed if name in there and not coming(below, kind, name)]


def coming(below: Tiers, kind: str, name: Name) -> bool:
    """Whether a copy of this kind that is under way brings a page."""
    return any(work.job.kind == kind and name in work.names for work in below.work.values())


@fact(3)
def failed_sources(below: Tiers) -> Mapping[Name, PageNo]:
    """Host copies that loads read from which failed and ended with the call: name to host page."""
    return {name: page for work in below.ended if work.failed for name, page in work.sources.items()}


# Rules

load_rule = partial(rule, on=(On.LOAD_BACK,), reference="prefix.load.load_back")


@load_rule(
    "LOAD-01",
    source="R-LB-01; map §4.9",
    allowed="{load_wanted} slots behind {load_resident} units",
    premise="load_wanted",
)
def a_load_back_brings_everything(
    load_slots: Sequence[Slot], load_wanted: Tokens, load_before: Tokens, load_resident: Tokens
) -> bool:
    """A load back MUST bring every unit that is cached on the host alone behind what the device has, and tell that boundary."""
    return len(load_slots) == load_wanted and (load_before == load_resident or not load_wanted)


@load_rule("LOAD-02", source="R-LB-01, R-LB-02", premise="load_slots")
def what_is_loaded_is_where_it_was_said(
    load_slots: Sequence[Slot], load_names: Sequence[Name], cached_after: Mapping[Name, PageNo], page_size: int
) -> bool:
    """The slots that a load back returns MUST be, in order, those where the tree then has the pages."""
    slots = [slot for name in load_names if name in cached_after for slot in page_slots(cached_after[name], page_size)]
    return slots == list(load_slots)


@rule(
    "LOAD-03",
    on=(On.REFUSED_LOAD_BACK,),
    source="R-LB-03; H-53",
    reference="prefix.load.load_back",
    allowed="a load of {load_least} to {load_most} units, with room for {load_room}",
    premise="load_most",
)
def a_load_back_is_declined_for_a_reason(
    load_least: Tokens,
    load_most: Tokens,
    load_threshold: Tokens,
    load_room: Tokens,
    load_limit: Tokens,
    load_struck: bool,
) -> bool:
    """A load back MUST be declined only when it is shorter than the declared threshold, above its quota, when the device has no room for it, or when its copy can't begin."""
    return load_least < max(1, load_threshold) or load_most > min(load_room, load_limit) or load_struck


@rule(
    "LOAD-04",
    on=(On.REFUSED_LOAD_BACK, On.OUT_OF_MEMORY),
    source="R-LB-01, R-LIFE-05",
    reference="prefix.load.load_back",
)
def what_is_declined_or_finds_no_memory_leaves_nothing(appeared: frozenset[Name], jobs_begun: Sequence[str]) -> bool:
    """A load back that is declined, or a call that ends for want of memory, MUST bring no page to the device and begin no copy: it may have made room, and nothing else."""
    return not appeared and "load" not in jobs_begun and "backup" not in jobs_begun


@load_rule("LOAD-05", source="R-LB-08", allowed="the host copies of {load_names} still there", premise="load_names")
def the_host_copy_survives_a_load_back(load_names: Sequence[Name], hosted: Mapping[Name, PageNo]) -> bool:
    """A page that is loaded back MUST keep its host copy."""
    return all(name in hosted for name in load_names)


@rule(
    "LOAD-06",
    on=(On.LAYERED,),
    source="R-LB-07; map §4.9",
    reference="prefix.load.copy_layers",
    allowed="{layers_copied} layers",
    premise="layers_copied",
)
def a_layer_may_be_read_when_it_has_arrived(layers_told: int, layers_copied: int) -> bool:
    """A load MUST tell as readable exactly the layers that it has copied, from the first one on."""
    return layers_told == layers_copied


@rule(
    "LOAD-07",
    on=(On.LIMITED_LOAD_BACK,),
    source="R-LB-04; H-27",
    reference="prefix.load.load_back",
    allowed="at most {load_limit} units",
    premise="load_slots",
)
def a_load_back_stays_within_its_quota(load_slots: Sequence[Slot], load_limit: Tokens) -> bool:
    """A load back with a quota MUST load no more than the quota leaves after what the load newly locks."""
    return len(load_slots) <= max(0, load_limit)


@rule(
    "LOAD-08",
    needs=("tiers", "steps", "copy_faults"),
    source="vllm#19329, vllm#49250, sglang#38427",
    reference="prefix.load.acknowledge_loads",
    premise="copies_failed",
)
def what_was_not_copied_is_not_there(failed_there: Sequence[Name]) -> bool:
    """When a backup or a load that failed has ended, its pages MUST NOT be where it was to bring them, unless another copy is under way that does."""
    return not failed_there


@rule(
    "LOAD-09",
    on=(On.PREFETCH_TICK,),
    needs=("copy_faults",),
    source="vllm#19329",
    reference="prefix.load.acknowledge_loads",
    allowed="{failed_sources} still on the host",
    premise="failed_sources",
)
def a_load_that_failed_leaves_its_sources(failed_sources: Mapping[Name, PageNo], hosted: Mapping[Name, PageNo]) -> bool:
    """A load that failed MUST leave the host copies that it read from where they are, when a tick ends it that makes no room on the host."""
    return failed_sources.items() <= hosted.items()


@rule("LOAD-10", on=(On.FAILED_COPY,), source="vllm#19329", reference="prefix.backup.fail")
def a_copy_that_failed_is_told_as_failed(told_failed: bool) -> bool:
    """A copy that failed MUST be listed as failed until it ends: whoever waits for it has to compute."""
    return told_failed


@load_rule(
    "LOAD-11",
    source="R-LB-01, R-SWA-08, R-MA-07, R-HT-03",
    allowed="from {load_ends} units{load_bound}",
    premise="load_is_bounded",
)
def a_load_back_goes_as_far_as_both_tiers_can(load_end: Tokens, load_ends: tuple[Tokens, Tokens]) -> bool:
    """A load back MUST end at the largest boundary behind the hit at which device and host together have what every component needs: no less, no more."""
    return load_ends[0] <= load_end <= load_ends[1]
