"""Backup: copies of cached KV further down, from the device to the host and from the host to storage.

When a page becomes due depends on the **write policy**: at its insertion (write-through), at its second
use (write-through-selective), or when it is evicted (write-back).  A backup is work in flight: the
host memory is the page's at once, the contents are right when the copy has **landed**, and the page is
protected on the device until the cache has taken note (**ack**).  A backup whose copy fails, where it is to begin or
under way, leaves the page as it was before: without a host copy, unprotected, due again at its next use.  Where
something depends on the host copy (a copy below it, a prefetch), the cache has to copy it again instead.

With storage, a page whose backup was acknowledged is then **put** there, under a name.  The name is all
that a reader has: one prefix must have one name, whoever computes it, and one name one prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile

from kvlitmus.spec.interface.tiers import BACKUP, PUT, Job
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Strength, rule
from kvlitmus.spec.prefix.advance import used_path
from kvlitmus.spec.prefix.calls import End, Insert, Publish, Slots
from kvlitmus.spec.prefix.evictable import droppable
from kvlitmus.spec.prefix.rules import tier as _tier  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import Put, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Misnamed, Tiers, Work
from kvlitmus.spec.prefix.work_calls import Settled, Tick
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.policies import hot
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name


@fact(0)
def inserted_path(state: State, setting: Setting, call: Insert[Slots] | Publish | End | Tick) -> Sequence[Name]:
    """The pages of the path that the call uses by an insertion, or of those that insertions used since the last tick; none of a chunk, which is no new use."""
    if not isinstance(call, Tick):
        return used_path(state, setting, call)
    return list(dict.fromkeys([name for path in state.tiers.paths for name in path])) if state.tiers else []


@fact(3)
def hot_pages(then: State, setting: Setting, inserted_path: Sequence[Name]) -> Mapping[Name, bool]:
    """Of the pages of the path that the call used, whether they were used often enough to be backed up."""
    return hot_among(then, setting, inserted_path)


def hot_among(then: State, setting: Setting, names: Sequence[Name]) -> Mapping[Name, bool]:
    """Of these pages, whether they were used often enough to be backed up; in doubt, whether they may have been.

    Where the profile counts something else as hits than insertions, how often a page was inserted is known of this time
    alone, which is enough for a write policy that backs up at the first use.
    """
    pages, vague, write = then.device.pages, then.device.doubt.vague, setting.config.write
    if setting.profile.hit_counts != "insert":
        return dict.fromkeys(pages.keys() & names, write != policies.WRITE_BACK)
    found = {name: hot(write, pages[name].hits) for name in names if name in pages}
    return {name: is_hot or (name in vague and hot(write, vague[name].hits)) for name, is_hot in found.items()}


@fact(0)
def backups_begun(below: Tiers) -> Sequence[Name]:
    """The pages of backups that began during the call."""
    return [name for work in below.begun if work.job.kind == BACKUP for name in work.names]


@fact(0)
def early_chances(setting: Setting, inserted_path: Sequence[Name], backups_begun: Sequence[Name]) -> Sequence[Name]:
    """The pages whose backup the call began; of a host under write-back, where it begins none, those of the path."""
    back = setting.config.tiered and setting.config.write == policies.WRITE_BACK
    return inserted_path if back else backups_begun


@fact(0)
def backed_early(
    setting: Setting,
    state: State,
    then: State,
    call: Insert[Slots] | Publish | End | Tick,
    inserted_path: Sequence[Name],
    below_before: Tiers,
    backups_begun: Sequence[Name],
) -> Sequence[Name] | Unknown:
    """Pages that a backup was begun for before the write policy says so, as far as it is known how often they were used; at a tick, copies made again left out."""
    profile, config, ticks = setting.profile, setting.config, isinstance(call, Tick)
    if ticks and (profile.backup_moment != "tick" or profile.backup_parent == policies.CHAIN):
        return UNKNOWN
    if not ticks and config.write == policies.WRITE_BACK:
        return backups_begun
    if profile.backup_parent == policies.CHAIN:
        return []
    hot_pages, again = dict(hot_among(then, setting, inserted_path)), set[Name]()
    if ticks:
        hot_pages.update((name, False) for name in backups_begun if name not in inserted_path)
        again.update(name for work in below_before.work.values() if work.failed for name in work.names)
    elif setting.seen and config.write == policies.SELECTIVE:  # what is new is used for the first time
        known = state.device.pages.keys() | state.host.pages.keys()
        hot_pages.update((name, False) for name in inserted_path if name not in known)
    if not setting.seen:  # what was further down once has uses that nobody counted
        again |= below_before.below_once
    return [name for name in backups_begun if name not in again and not hot_pages.get(name, True)]


@fact(3)
def came_due(
    setting: Setting, inserted_path: Sequence[Name], hot_pages: Mapping[Name, bool], tiers_seen_before: TierSeen
) -> Sequence[Name]:
    """Pages of the path that were used often enough to be backed up, and had no host copy, where there is a host."""
    path = inserted_path if setting.config.tiered else ()
    return [name for name in path if hot_pages.get(name) and name not in tiers_seen_before.hosted]


@fact(3)
def due_missed(
    setting: Setting,
    state: State,
    call: Insert[Slots] | Publish | End | Tick,
    inserted_path: Sequence[Name],
    hot_pages: Mapping[Name, bool],
    below_before: Tiers,
    tiers_seen_before: TierSeen,
    tiers_seen: TierSeen,
) -> Sequence[Name] | Unknown:
    """Pages that are due for backup now, with room for all of them, and are neither backed nor under way; under write-back none ever is."""
    profile, ticks = setting.profile, isinstance(call, Tick)
    if ticks != (profile.backup_moment == "tick") or (setting.config.write == policies.WRITE_BACK and not ticks):
        return UNKNOWN
    paths = below_before.paths if ticks else (inserted_path,)
    if not paths:
        return []
    if not _backups_are_sure(setting, below_before):
        return UNKNOWN
    if ticks:
        if profile.reserve == "hit" or any(work.failed for work in below_before.work.values()):
            return UNKNOWN
        paths = tuple([tuple(takewhile(lambda name: name not in below_before.left, path)) for path in paths])
    due = [name for path in paths for name in _due_and_bare(setting, path, hot_pages, tiers_seen)]
    used = list(dict.fromkeys([name for path in paths for name in path]))
    return due if due and _has_room(state, used, tiers_seen_before) else []


def _backups_are_sure(setting: Setting, below_before: Tiers) -> bool:
    """Whether what is due can be told, and nothing that the suite has asked to fail may be its backup."""
    profile = setting.profile
    uncounted = profile.hit_counts == "none" and setting.config.write == policies.WRITE_THROUGH  # one use is enough
    if not (uncounted or profile.hit_counts == "insert") or profile.backup_filter == "own":
        return False  # how often a page was used is not what the profile counts, or not all that the cache goes by
    return below_before.fault is None and BACKUP not in below_before.failing and not below_before.starved


def _due_and_bare(
    setting: Setting, path: Sequence[Name], hot_pages: Mapping[Name, bool], after: TierSeen
) -> Sequence[Name]:
    """The pages of a path that are due for backup, and neither backed nor under way."""
    bare = [name for name in takewhile(after.cached.__contains__, path) if name not in after.hosted]
    return bare[: policies.due([hot_pages.get(name, False) for name in bare], setting.profile.backup_parent)]


def _has_room(state: State, names: Sequence[Name], before: TierSeen) -> bool:
    """Whether the host had room for all of these pages that had no copy there."""
    was = [name for name in names if name not in before.hosted]
    return before.host_free_count + len(droppable(state, before, spared=names)) >= len(was)


@fact(0)
def copies_ended(below: Tiers) -> Sequence[Job]:
    """Backups and loads that ended with the call."""
    return [work.job for work in below.ended]


@fact(0)
def acked_unlanded(below: Tiers, setting: Setting) -> Sequence[Job]:
    """Backups and loads that ended before their copy had landed; or before an earlier one, where they end in order."""
    in_order = setting.profile.copy_acks == "in_order"
    return [work.job for work in below.ended if not work.over or (in_order and _overtakes(work, below))]


def _overtakes(work: Work, below: Tiers) -> bool:
    """Whether a job that ended began after one of its kind that is still under way."""
    return any(
        one.job.kind == work.job.kind and not one.over and one.job.id < work.job.id for one in below.work.values()
    )


@fact(0)
def storage_names(below: Tiers) -> Mapping[Name, frozenset[str]]:
    """The names under which storage was asked for or given each prefix."""
    return below.stored.names_of


@fact(0)
def storage_puts(tiers_seen: TierSeen) -> Sequence[Put]:
    """What storage was given during the call."""
    return tiers_seen.record.puts


@fact(0)
def refused_by_storage(below: Tiers) -> frozenset[Name]:
    """Pages that storage refused, or that were to follow one, and that it has not accepted since."""
    return below.stored.refused


@fact(0)
def pages_acked(below: Tiers) -> frozenset[Name]:
    """Pages whose backup was acknowledged with this storage attached, but for those that it refused since."""
    return below.backed


@fact(0)
def hosted_and_used(below_before: Tiers) -> frozenset[Name]:
    """Pages on the host that an insertion has used since the last tick, with storage attached."""
    return below_before.used


@fact(0)
def many_names(below: Tiers) -> Sequence[Misnamed]:
    """Prefixes that storage was asked for or given under more than one name."""
    return below.stored.many_names


@fact(0)
def many_prefixes(below: Tiers) -> Sequence[Misnamed]:
    """Names under which storage was asked for or given more than one prefix."""
    return below.stored.many_prefixes


@fact(0)
def put_wrong(below: Tiers) -> Sequence[tuple[str, tuple[int, ...]]]:
    """Pages put into storage whose contents aren't the KV of one page of one prefix."""
    return below.stored.put_wrong


@fact(0)
def put_after_failure(below: Tiers) -> Sequence[str]:
    """Pages that a put wrote after a page that storage refused."""
    return below.stored.put_behind


@fact(0)
def put_missing(below: Tiers) -> Sequence[Name]:
    """Pages of a put that ended well and that storage never got."""
    return below.stored.put_missing


@fact(0)
def unstored(below: Tiers, call: Settled) -> Sequence[Name]:
    """Pages whose backup was acknowledged with this storage attached, and that it has neither got nor refused."""
    return sorted(below.backed - below.shelf) if not call.waiting else []


@fact(3)
def owed_missed(below_before: Tiers, below: Tiers, tiers_seen: TierSeen) -> Sequence[Name]:
    """Pages on the host that an insertion since the last tick found missing in storage, and no put was begun for."""
    owed = below_before.owed
    if not owed:
        return []
    going = {
        name
        for work in (*below_before.work.values(), *below.work.values())
        if work.job.kind in (BACKUP, PUT)
        for name in work.names
    }
    return sorted(name for name in owed - going - below.shelf if name in tiers_seen.hosted)


# Rules

BACKING = (On.INSERT, On.PUBLISH, On.FINISH, On.TICK)
"""The calls that insert, and a tick, for which backups may wait."""

put_rule = partial(rule, reference="prefix.put.accepted")


@rule(
    "BACKUP-01",
    on=BACKING,
    needs=("tiers", "steps"),
    source="R-WB-01, R-WB-03",
    reference="prefix.backup.due",
    premise="came_due",
)
def what_is_due_is_backed_up(due_missed: Sequence[Name]) -> bool:
    """An insertion, or the next tick where the profile lets backups wait for it, MUST begin the backup of every page
    that the write policy makes due, if the host has room for all of them. The profile may say that a filter of the
    cache's own declines it.
    """
    return not due_missed


@rule(
    "BACKUP-02",
    on=BACKING,
    needs=("tiers", "steps"),
    source="R-WB-01, R-WB-02",
    reference="prefix.backup.due",
    premise="early_chances",
)
def nothing_is_backed_up_before_it_is_due(backed_early: Sequence[Name]) -> bool:
    """An insertion, or a tick for which backups wait, MUST NOT begin the backup of a page that isn't due: under
    write-back none, under write-through-selective none at its first use. At a tick a copy that failed may be made again.
    """
    return not backed_early


@rule(
    "BACKUP-03",
    needs=("tiers", "steps"),
    source="R-WB-04, R-WB-07, R-LB-05",
    reference="prefix.life.tick",
    allowed="copies that have landed, in the order of the profile's copy_acks",
    premise="copies_ended",
)
def an_ack_waits_for_its_copy(acked_unlanded: Sequence[Job]) -> bool:
    """A backup or a load MUST end only after its copy has landed, and, unless the profile says that copies are acknowledged in any order, after those of its kind that began before it."""
    return not acked_unlanded


@rule(
    "BACKUP-04",
    needs=("lifecycle",),
    source="R-HASH-05, R-HASH-06, R-PF-02; H-08, H-14, H-61",
    reference="prefix.put.start_puts",
    premise="storage_names",
)
def a_prefix_has_one_name_in_storage(many_names: Sequence[Misnamed]) -> bool:
    """All puts and queries MUST name a page of the same prefix alike: what the write path stores the read path must find."""
    return not many_names


@rule(
    "BACKUP-05",
    needs=("lifecycle",),
    source="R-HASH-02, R-HASH-04, R-HASH-06; H-13, H-14, sglang#26747",
    reference="prefix.put.start_puts",
    premise="storage_names",
)
def a_name_in_storage_means_one_prefix(many_prefixes: Sequence[Misnamed]) -> bool:
    """A name in storage MUST stand for one prefix in one namespace: another position or another tenant is another page."""
    return not many_prefixes


@put_rule("BACKUP-06", needs=("lifecycle", "data"), source="R-BK-01", premise="storage_puts")
def what_is_put_is_one_page_of_one_prefix(put_wrong: Sequence[tuple[str, tuple[int, ...]]]) -> bool:
    """A put MUST write the whole contents of one page, computed in the namespace and at the place that it is for."""
    return not put_wrong


@put_rule("BACKUP-07", needs=("lifecycle", "steps"), source="R-BK-04", premise="refused_by_storage")
def a_put_stops_where_storage_refuses(put_after_failure: Sequence[object]) -> bool:
    """A put MUST go in prefix order and write nothing behind a page that storage refused."""
    return not put_after_failure


@put_rule("BACKUP-08", needs=("lifecycle", "steps", "data"), source="R-BK-01, R-BK-05; H-16", premise="storage_puts")
def a_put_that_ended_well_has_stored_its_pages(put_missing: Sequence[Name]) -> bool:
    """A put that met no refusal MUST have given all of its pages to storage."""
    return not put_missing


@rule(
    "BACKUP-09",
    on=(On.SETTLED,),
    strength=Strength.SHOULD,
    needs=("lifecycle", "data"),
    source="R-BK-01, R-BK-03, R-BK-04; H-60",
    reference="prefix.life.tick",
    premise="pages_acked",
)
def what_is_backed_up_gets_into_storage(unstored: Sequence[Name]) -> bool:
    """When everything has settled, each page whose backup was acknowledged with storage attached SHOULD be in that storage, unless it, or a page before it, was refused there."""
    return not unstored


@rule(
    "BACKUP-11",
    on=(On.TICK,),
    strength=Strength.SHOULD,
    needs=("lifecycle", "data"),
    source="R-BK-01, R-BK-04; H-60",
    reference="prefix.backup.used",
    premise="hosted_and_used",
)
def what_storage_lacks_is_put_when_it_is_used_again(owed_missed: Sequence[Name]) -> bool:
    """When an insertion uses a path, those of its pages that storage lacks SHOULD be on their way there by the next
    tick. These are the pages whose host copies are complete, back to the first page, and that the storage attached now
    has neither taken nor said it has. So they are put again after a refusal, an error or a put that ended short, and
    put at all when this storage was attached after them.
    """
    return not owed_missed
