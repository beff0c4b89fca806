"""The life of a prefetch, from the request that asks for it to its place in the tree.

What a prefetch may reserve is the plan of :mod:`kvlitmus.spec.prefix.rules.prefetch`.  This part is about what follows.
The prefetch **asks** storage how much it has of the pages behind the **anchor** (the last page
that is cached); too little, and it is **revoked**.  It **fetches** what storage has, page by page, in order.
The request that waits for it **polls**; when the stop policy says so the prefetch is ended, and what has
been fetched, always a prefix, is **committed** to the tree on the host.

Of the n reserved slots, with hit found, c fetched and x already in the tree when m of them are committed, each
has one way back: [0,x) is freed at the commit, [x,m) is the tree's, [m,c), [c,hit) and [hit,n) return by the
release queue.  Every way that a prefetch can end (commit, revoke, abort, detach, reset) returns all the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple, cast

from kvlitmus.spec.interface import tiers as answers
from kvlitmus.spec.interface.tiers import FETCH
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.evictable import droppable, reclaimable
from kvlitmus.spec.prefix.judged_step import Look
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.partial import known_part, run_of, surely
from kvlitmus.spec.prefix.prefetch_advance import committed, ending, gate_of, stop_allowed_now
from kvlitmus.spec.prefix.rules import copies as _copies  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import load as _load  # noqa: F401 - its facts, and those of tiers
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.storage_advance import query_hit_of
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.prefix.work_calls import Abandon, Advance, Poll, Prefetch, TellLoaded, Tick
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tokens, page_floor

# Asking for one


@fact(0, ports=("tiers",))
def known_before(state: State, call: Prefetch[int | None]) -> Sequence[Name] | Unknown:
    """The pages of the key that are cached on either tier, from the first one on, before the call."""
    known, possible = run_of(call.path.pages, state.device, state.host)
    return call.path.pages[:known] if known == possible else UNKNOWN


@fact(0)
def fetchable(setting: Setting, call: Prefetch[int | None], known_before: Sequence[Name]) -> Tokens:
    """Units of whole pages behind what is cached."""
    return page_floor(len(call.path.names) - len(known_before) * setting.size, setting.size)


@fact(0)
def gate(
    state: State, below_before: Tiers, tiers_seen_before: TierSeen, setting: Setting, call: Prefetch[int | None]
) -> str | Unknown:
    """Why the prefetch must be refused, as far as can be known (empty: no gate is shut)."""
    known = possible = (call.start or 0) // setting.size
    if call.start is None:
        known, possible = run_of(call.path.pages, state.device, state.host)
    why = gate_of(below_before, tiers_seen_before, setting, call.rid, len(call.path.names), known)
    return UNKNOWN if why is None or (why == "" and known < possible) else why


@fact(0)
def begun(answer: answers.Prefetched) -> bool:
    """Whether the cache says that the prefetch has begun."""
    return answer.started


@fact(0)
def fetch_matched(answer: answers.Prefetched) -> Tokens:
    """Units that the prefetch found cached on either tier."""
    return Tokens(answer.matched)


@fact(0)
def fetch_anchor(answer: answers.Prefetched) -> Tokens | Unknown:
    """At how many units the page is behind which the prefetch will attach what it reads."""
    return UNKNOWN if answer.anchor is None or not answer.started else Tokens(answer.anchor)


@fact(0, ports=("tiers",))
def known_certain(state: State, setting: Setting, call: Prefetch[int | None]) -> Tokens:
    """Units of the key that are certainly cached on either tier, before the call."""
    return Tokens(len(known_part(state, call.path.pages)) * setting.size)


@fact(0, ports=("tiers",))
def known_possible(state: State, setting: Setting, call: Prefetch[int | None]) -> Tokens:
    """Units of the key that are possibly cached on either tier, before the call."""
    return Tokens(run_of(call.path.pages, state.device, state.host)[1] * setting.size)


@fact(0)
def fetch_asked(setting: Setting, answer: answers.Prefetched) -> Tokens | Unknown:
    """Units that the prefetch set out to read."""
    return Tokens(answer.asked) if setting.profile.reserve == "submit" else UNKNOWN


@fact(1)
def reservable(
    state: State,
    below_before: Tiers,
    tiers_seen_before: TierSeen,
    setting: Setting,
    gate: str,
    begun: bool,
    known_before: Sequence[Name],
    fetchable: Tokens,
) -> Tokens | Unknown:
    """What a prefetch can reserve: the plan for what is free and can be dropped, before the call."""
    if setting.profile.reserve != "submit":
        return UNKNOWN
    if gate:
        return Tokens(0)
    seen = tiers_seen_before
    if not setting.seen:
        anchored = not known_before or known_before[-1] in surely(state.host)
        enough = seen.host_available is not None and seen.host_available >= fetchable
        if not enough or not (anchored or begun) or below_before.fault is not None:
            return UNKNOWN
        return Tokens(0) if fetchable < max(setting.config.threshold, setting.size) else fetchable
    most, least = (len(droppable(state, seen, known_before, nodes=nodes)) for nodes in (False, True))
    most += len(reclaimable(state, setting).difference(known_before[-1:]))  # the anchor alone is pinned
    anchored = not known_before or known_before[-1] in seen.hosted
    if most != least or not (anchored or begun) or below_before.fault is not None:
        return UNKNOWN
    length = min(fetchable, (seen.host_free_count + least) * setting.size)
    return Tokens(0) if length < max(setting.config.threshold, setting.size) else Tokens(length)


@fact(3)
def taken(tiers_seen_before: TierSeen, tiers_seen: TierSeen, setting: Setting) -> Tokens:
    """Slots of host memory that work in flight holds more than before the call."""
    return Tokens((len(tiers_seen.moving) - len(tiers_seen_before.moving)) * setting.size)


# While it is under way


@fact(1, ports=("prefetching",))
def occupied_now(tiers_seen: TierSeen) -> Tokens:
    """Units that the cache says running prefetches occupy."""
    return Tokens(cast("int", tiers_seen.occupied))


@fact(0)
def occupied_least(below: Tiers, setting: Setting) -> Tokens:
    """Units that prefetches occupy which are certainly under way."""
    late, least = setting.profile.reserve == "hit", 0
    for one in below.prefetches.under_way():
        if not one.revoked:
            least += min(one.hit, one.asked) if late and one.hit is not None else one.asked
    return Tokens(least)


@fact(0)
def occupied_most(below: Tiers) -> Tokens:
    """Units that prefetches occupy which may still be under way."""
    return Tokens(sum(one.asked for one in below.prefetches.under_way()))


@fact(0)
def query_hit(below_before: Tiers, tiers_seen: TierSeen, setting: Setting, call: Advance) -> Tokens:
    """Units that storage told the query it has."""
    return Tokens(query_hit_of(setting, below_before.work[call.job], tiers_seen.record))


@fact(0)
def query_least(setting: Setting) -> Tokens:
    """Units below which a prefetch isn't worth going on."""
    return Tokens(max(setting.config.threshold, setting.size))


@fact(0)
def fetch_length(below_before: Tiers, below: Tiers, setting: Setting, call: Advance) -> Tokens:
    """Units that the fetch is for which the query led to; 0 without one."""
    rid = below_before.prefetches.by_number[below_before.prefetches.of_job[call.job]].rid
    fresh = (work for work in below.begun if work.job.kind == FETCH and work.job.rid == rid)
    return Tokens(next((len(work.names) for work in fresh), 0) * setting.size)


@fact(0)
def fetch_disorder(below: Tiers) -> Sequence[tuple[str, int]]:
    """Pages that a fetch read out of order, twice, or beyond what the query found."""
    return below.stored.disorder


@fact(0)
def fetch_done(tiers_seen: TierSeen, call: Advance) -> Tokens | Unknown:
    """Units that the fetch counts as completed."""
    job = tiers_seen.jobs.get(call.job)
    return UNKNOWN if job is None or job.landed else Tokens(job.done)


@fact(0)
def fetch_got(expected: State, call: Advance) -> Tokens:
    """Units of whole pages that storage has given the fetch, from the first to the first that it hasn't."""
    assert expected.tiers is not None
    fetches = expected.tiers.prefetches
    return Tokens(fetches.by_number[fetches.of_job[call.job]].got)


# Its end


@fact(0)
def own_prefetch(below_before: Tiers, call: Poll | Abandon) -> bool:
    """Whether a prefetch of this request was under way."""
    return call.rid in below_before.prefetches.running


@fact(0)
def stop_allowed(state: State, setting: Setting, call: Poll) -> Sequence[bool]:
    """The answers to a poll that the stop policy allows at this moment."""
    return stop_allowed_now(state, setting, call.rid)


class Commits(NamedTuple):
    """What the commits of a step may have added, and what of it is missing."""

    may: frozenset[Name]
    missing: Sequence[Name]


@fact(3)
def commits(look: Look) -> Commits:
    """What the commits of the call may have added, and what of it is missing."""
    call, fetches = look.call, look.below_before.prefetches
    numbers: Sequence[int] = ()
    if isinstance(call, Tick):
        numbers = ending(look.state, look.setting)
    elif isinstance(call, Poll) and look.answer and call.rid in fetches.running:
        numbers = [fetches.running[call.rid]]
    may, missing = frozenset[Name](), list[Name]()
    for number in numbers:
        one = fetches.by_number[number]
        one = one._replace(counted=one.got) if isinstance(call, Tick) else one  # a tick counts all that was read
        own, lacking = committed(with_jobs(look), look.setting, number, one, look.tiers_seen_before, look.tiers_seen)
        may, missing = may | own, missing + lacking
    return Commits(may, missing)


def with_jobs(look: Look) -> State:
    """What was expected, with the jobs that are under way after the call."""
    assert look.expected.tiers is not None
    return look.expected._replace(tiers=look.expected.tiers._replace(work=look.below.work))


@fact(3)
def commit_range(commits: Commits) -> frozenset[Name]:
    """Names of the pages that a commit may add: those fetched so far."""
    return commits.may


@fact(3)
def came_by_commits(
    look: Look, appeared: AbstractSet[Name], host_appeared: frozenset[Name], host_committed: frozenset[Name]
) -> AbstractSet[Name]:
    """Names that were not on the tier to which prefetches bring pages before the call, and are after it; where one may be committed, but for those that a backup began to make."""
    if look.setting.fetches_to == DEVICE:
        return appeared
    commits = isinstance(look.call, Poll) or (isinstance(look.call, Tick) and ending(look.state, look.setting))
    return host_committed if commits else host_appeared


@fact(3)
def commit_missing(commits: Commits) -> Sequence[Name]:
    """Names of fetched pages that are not in the tree after the commit, though they could be."""
    return commits.missing


NONE_ADDED = (0, 0)
"""What a prefetch of which nothing is known has added."""


@fact(0)
def loaded_least(below_before: Tiers, call: TellLoaded) -> Tokens:
    """The fewest units that the prefetch can have added."""
    return Tokens(below_before.prefetches.added.get(call.rid, NONE_ADDED)[0])


@fact(0)
def loaded_most(below_before: Tiers, call: TellLoaded) -> Tokens:
    """The most units that the prefetch can have added, or one of that request before a reset."""
    return Tokens(max(below_before.prefetches.added.get(call.rid, NONE_ADDED)[1], below_before.stale.get(call.rid, 0)))


# How the tiers changed


@fact(3)
def pins_changed(tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> Sequence[Name] | Unknown:
    """Nodes whose pins changed."""
    if tiers_seen.hides_pins:
        return UNKNOWN
    then = {
        node.named.pages: node.pins for node in tiers_seen_before.tier_nodes
    }  # a node that was split is another one
    return [
        node.named.pages[-1]
        for node in tiers_seen.tier_nodes
        if node.named.pages and then.get(node.named.pages, node.pins) != node.pins
    ]


@fact(3)
def tree_changed(tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> bool:
    """Whether the set of pages on either tier changed."""
    before, after = tiers_seen_before, tiers_seen
    moved = before.hosted != after.hosted or before.cached != after.cached
    return moved or before.parent_names.keys() != after.parent_names.keys()


# Rules

BACKGROUND = (On.QUERY, On.FETCH, On.ZOMBIE, On.PUT, On.COPIED, On.FAILED_COPY, On.PREFETCH_TICK)
"""What goes on while nobody calls: each kind of job that is advanced, and the tick, unless that takes host memory."""

submit_rule = partial(rule, on=(On.PREFETCH, On.REFUSED_PREFETCH), reference="prefix.fetch.submit")


@submit_rule("FETCH-01", source="R-PF-01, R-PF-04, R-PF-11, R-PF-12", allowed="refused: {gate}", premise="gate")
def a_prefetch_behind_a_shut_gate_is_refused(gate: str, begun: bool) -> bool:
    """A prefetch MUST be refused without storage, below the threshold, at the rate limit, and, where the profile says so, while one of the same request is under way."""
    return not (gate and begun)


@rule("FETCH-02", on=(On.GATED_PREFETCH,), source="R-PF-01", reference="prefix.fetch.submit")
def a_shut_gate_has_no_side_effect(
    tree_changed: bool, taken: Tokens, pins_changed: Sequence[Name], jobs_begun: Sequence[str]
) -> bool:
    """A prefetch that a gate refuses MUST evict, reserve, protect and begin nothing."""
    return not (tree_changed or taken or pins_changed or jobs_begun)


@submit_rule(
    "FETCH-03",
    needs=("host",),
    source="R-PF-03, R-PF-06, R-PF-08, R-PF-12; sglang#16370, H-01, H-03",
    allowed="{reservable} units",
)
def a_prefetch_reserves_what_the_plan_says(fetch_asked: Tokens, reservable: Tokens) -> bool:
    """A prefetch MUST set out to read its full length if host memory can be had for it, else the whole pages there is memory for if they reach the threshold, else be refused."""
    return fetch_asked == reservable


@submit_rule("FETCH-04", source="R-PF-07, R-PF-08", allowed="{fetch_asked} units more in flight", premise="begun")
def a_prefetch_holds_exactly_what_it_reserved(begun: bool, fetch_asked: Tokens, taken: Tokens) -> bool:
    """A prefetch that begins MUST hold as much host memory as it set out to read, and one that is refused none."""
    return taken == (fetch_asked if begun else 0)


@rule(
    "FETCH-05",
    on=(On.PREFETCH,),
    source="R-PF-02; H-08",
    reference="prefix.fetch.submit",
    allowed="an anchor at {fetch_matched} units",
)
def a_prefetch_begins_where_its_anchor_ends(fetch_matched: Tokens, fetch_anchor: Tokens) -> bool:
    """A prefetch MUST begin directly behind the page to which it will attach what it reads, else be refused: its names are chained from there."""
    return fetch_matched == fetch_anchor


@rule(
    "FETCH-06",
    on=(On.PREFETCH,),
    source="R-PF-02, R-HT-03",
    reference="prefix.fetch.submit",
    allowed="from {known_certain} to {known_possible} units",
)
def a_prefetch_skips_what_is_cached(fetch_matched: Tokens, known_certain: Tokens, known_possible: Tokens) -> bool:
    """A prefetch MUST begin behind everything of the key that is cached on either tier."""
    return known_certain <= fetch_matched <= known_possible


@rule(
    "FETCH-07",
    needs=("prefetching",),
    source="R-PF-05; H-40, sglang#30053",
    reference="prefix.hierarchy.occupied",
    allowed="from {occupied_least} to {occupied_most} units",
    premise="occupied_most",
)
def prefetches_under_way_are_counted(occupied_now: Tokens, occupied_least: Tokens, occupied_most: Tokens) -> bool:
    """The units that count against the rate limit MUST be those of the prefetches under way, and return to zero with them."""
    return occupied_least <= occupied_now <= occupied_most


@rule(
    "FETCH-08",
    on=(On.QUERY,),
    source="R-PFT-01, R-PFT-02",
    reference="prefix.fetch.answer",
    allowed="a fetch of {query_hit} units if these are at least {query_least}, else none",
    premise="query_hit",
)
def a_query_leads_to_a_fetch_of_what_was_found(query_hit: Tokens, query_least: Tokens, fetch_length: Tokens) -> bool:
    """A prefetch MUST go on to fetch exactly what storage has from the first page on, if that reaches the threshold, and be revoked if not."""
    return fetch_length == (query_hit if query_hit >= query_least else 0)


@rule(
    "FETCH-09",
    needs=("prefetching", "lifecycle"),
    source="R-PFT-02",
    reference="prefix.fetch.read",
    premise="storage_reads",
)
def a_fetch_reads_the_pages_found_in_order(fetch_disorder: Sequence[tuple[str, int]]) -> bool:
    """A fetch MUST read the pages that its query found, each once, in order, and no others."""
    return not fetch_disorder


@rule(
    "FETCH-10",
    on=(On.FETCH,),
    source="R-PFT-03, R-PFT-05",
    reference="prefix.fetch.read",
    allowed="{fetch_got} units",
    premise="fetch_got",
)
def a_fetch_counts_what_has_arrived(fetch_done: Tokens, fetch_got: Tokens) -> bool:
    """A fetch MUST count as completed exactly the whole pages that have arrived, up to the first that has not."""
    return fetch_done == fetch_got


@rule(
    "FETCH-11",
    on=(On.POLL,),
    source="R-PFT-04, R-PFT-05, R-PFT-06, R-PFT-07; H-12, H-64",
    reference="prefix.fetch.may_stop",
    allowed="one of {stop_allowed}",
)
def a_request_waits_as_the_stop_policy_says(said_yes: bool, stop_allowed: Sequence[bool]) -> bool:
    """A poll MUST say that the request need not wait when its stop policy allows it to go on, and not before; a request without a prefetch need not wait."""
    return said_yes in stop_allowed


@rule(
    "FETCH-12",
    on=(On.POLL, On.COMMIT, On.ABANDON, *BACKGROUND),
    source="R-PFC-01, R-PFC-06, R-PFC-08",
    reference="prefix.fetch.commit",
    allowed="at most {commit_range}",
    premise="came_by_commits",
)
def a_commit_adds_nothing_but_what_was_fetched(
    came_by_commits: AbstractSet[Name], commit_range: frozenset[Name]
) -> bool:
    """What was fetched MUST NOT get into the tree but by a commit, and no page beyond those that were fetched completely: an aborted prefetch leaves nothing."""
    return came_by_commits <= commit_range


@rule(
    "FETCH-13",
    on=(On.POLL, On.COMMIT),
    source="R-PFC-01, R-PFC-09",
    reference="prefix.fetch.commit",
    premise="commit_range",
)
def a_commit_adds_all_that_was_fetched(commit_missing: Sequence[Name]) -> bool:
    """After a commit every page that was fetched MUST be in the tree, unless it would hang below a page without a host copy."""
    return not commit_missing


@rule(
    "FETCH-14",
    on=(On.POLL, On.ABANDON, *BACKGROUND),
    source="R-PFC-03, R-PFC-08",
    reference="prefix.fetch.commit",
    premise="hosted_before",
)
def what_was_cached_stays_where_it_was(
    hosted_before: Mapping[Name, PageNo],
    hosted: Mapping[Name, PageNo],
    cached_before: Mapping[Name, PageNo],
    cached_after: Mapping[Name, PageNo],
    failed_backups: frozenset[Name],
    failed_loads: frozenset[Name],
) -> bool:
    """The end of a prefetch, and whatever goes on in the background, MUST leave the pages that are cached already where they are, those whose copy has failed left out."""
    stay = {name: page for name, page in hosted_before.items() if name not in failed_backups}
    resident = {name: page for name, page in cached_before.items() if name not in failed_loads}
    found = {name: page for name, page in cached_after.items() if name not in failed_loads}
    return stay.items() <= hosted.items() and resident == found


@rule(
    "FETCH-16",
    on=(On.LOADED,),
    source="R-PFC-03, R-PFT-07",
    reference="prefix.fetch.told",
    allowed="from {loaded_least} to {loaded_most} units",
    premise="loaded_most",
)
def what_a_prefetch_added_is_told_once(told_units: Tokens, loaded_least: Tokens, loaded_most: Tokens) -> bool:
    """A request that asks after the poll that let it go on MUST be told truly, once, how many units its prefetch has added, and any other request 0."""
    return loaded_least <= told_units <= loaded_most


@rule(
    "FETCH-17",
    on=(On.POLL, On.ABANDON),
    source="R-PFT-07; H-58",
    reference="prefix.fetch.poll",
    premise="not own_prefetch",
)
def asking_about_a_stranger_changes_nothing(
    own_prefetch: bool, tree_changed: bool, pins_changed: Sequence[Name]
) -> bool:
    """A poll or an abort of a request without a prefetch under way MUST change nothing."""
    return own_prefetch or not (tree_changed or pins_changed)
