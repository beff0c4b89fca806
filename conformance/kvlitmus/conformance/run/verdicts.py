"""Verdicts: what is said about each rule, concluded from what the items of a run brought.

Pure functions over plain data: nothing here plays, prints or reads.  A verdict is *passed* only
if the rule was evaluated at least once where it matters (its premise was true) and never broken.
What never was gets the first of these grounds that is true:

1. the target offers no such capability, or its profile leaves the situation undefined, or the
   depth of the run is too small: *not applicable*;
2. every item that could have told was declined by the target: *not applicable*;
3. runs ended early at a broken rule: *blocked* by that rule;
4. the run was interrupted: *inconclusive*;
5. items failed outside of any judged call: *harness error*;
6. otherwise nobody got there although the capability is declared: *not exercised*.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from kvlitmus.conformance.checker.judge import FLAT_CALL
from kvlitmus.conformance.isolation.remote.apart import APART, PIPED, UNSEEN
from kvlitmus.conformance.run.cause import Cause, cause_of, method_of, pack_of, parting
from kvlitmus.conformance.run.minimise import BRIEF, Short, ranked
from kvlitmus.conformance.run.results import Finding, ItemResult, RuleVerdict, Verdict
from kvlitmus.conformance.support import ending
from kvlitmus.spec.interface.cache import CACHE_PORTS
from kvlitmus.spec.interface.components import COMPONENT_PORTS
from kvlitmus.spec.law.facts import FACTS
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Rule, Strength, said_before
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.components.hierarchy import LAWS
from kvlitmus.spec.prefix.components.plain import BOTH, PORTS
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.words.policies import WRITES

FLAT = "a cache without a host tier"
"""What the rules on calls to flat caches need; no adapter declares it."""

CALLS_BY_NEED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("pool",): ("alloc", "free", "double_free", "repeated_free", "partial_free", "scribble", "odd_alloc", "forbidden"),
    ("pool", "extend"): ("alloc_extend", "alloc_decode", "extend", "extend_batch", "extend_one"),
    ("pool", "group"): ("group_open", "group_end"),
    ("reset",): ("reset",),
    ("reset", "flush"): ("flush",),
    ("lookup",): ("match",),
    ("pool", "tree"): ("insert",),
    ("tree",): ("beyond",),
    ("tree", "raw"): ("other_width",),
    ("tree", "locks"): ("lock", "unlock", "stale_unlock"),
    ("evict",): ("evict", "again"),
    ("requests",): ("begin", "grow", "publish", "publish_all", "end", "finish", "abort"),
    ("requests", "take_back"): ("take_back",),
    ("requests", "fork"): ("fork", "refused_fork"),
    ("requests", "retract"): ("retract", "resume", "refused_resume", "discard"),
    ("requests", "partial"): ("publish_upto", "end_upto"),
    ("hashes",): ("page_hashes", "hash_pair", "hash_pieces", "hash_namespaces", "hash_refusal", "hashed"),
    ("prefetch",): ("plan_prefetch",),
    ("tiers", "host"): ("load_back", "evict_host"),
    ("tiers", "quota"): ("limited_load_back",),
    ("tiers", "steps", "layers"): ("layered",),
    ("tiers", "steps", "prefetching"): ("query", "fetch"),
    ("tiers", "steps", "lifecycle"): ("put",),
    ("tiers", "steps"): ("tick", "prefetch_tick", "settled", "quiet_tick", "copied", "zombie"),
    ("tiers", "steps", "copy_faults"): ("failed_copy",),
    ("tiers", "prefetching"): ("gated_prefetch", "prefetch", "poll", "abandon", "loaded"),
    ("tiers", "prefetching", "steps"): ("commit",),
    ("tiers", "reattach"): ("attach", "detach"),
    ("tiers", "reattach", "steps"): ("detached",),
    ("tiers", "requests", "memory_faults"): ("out_of_memory",),
    ("events", "batches"): ("batch",),
    (FLAT,): (FLAT_CALL,),
    ("store",): ("store_exists", "store_get", "store_put", "store_lookup", "store_clear"),
    ("store", "store_into"): ("store_get_into",),
    ("store", "store_crash"): ("store_crash",),
    ("store", "store_other"): ("store_race",),
    ("sparse",): ("sparse_request", "sparse_read", "sparse_free"),
    ("sparse", "sparse_buffers"): ("sparse_admit",),
    ("sparse", "sparse_buffers", "sparse_swaps"): ("sparse_swap", "sparse_misuse"),
    ("sparse", "sparse_peer"): ("sparse_connect",),
    ("sparse", "sparse_backups"): ("sparse_backup",),
    ("sparse", "sparse_admission"): ("sparse_reserve",),
    ("sparse", "sparse_buffers", "sparse_growth"): ("sparse_grow",),
    ("sparse", "sparse_transfer"): ("sparse_prealloc", "sparse_transferred"),
    ("sparse", "sparse_staging"): ("sparse_stage", "sparse_copied", "sparse_ready"),
    ("components",): (
        "component_alloc",
        "component_free",
        "component_insert",
        "component_lock",
        "component_unlock",
        "component_evict",
    ),
    ("component_lookup",): ("component_match", "component_reset"),
    ("component_requests",): (
        "component_start",
        "refused_component_start",
        "component_grow",
        "refused_component_grow",
        "component_finish",
    ),
    ("components", "component_prefetch"): (
        "component_prefetch",
        "component_found",
        "component_settled",
        "component_commit",
        "component_abort",
    ),
    ("components", "component_host"): (
        "component_back_up",
        "component_load",
        "component_copied",
        "component_evict_host",
    ),
    ("components", "component_storage"): (
        "component_attach",
        "component_detach",
        "component_write",
        "component_written",
    ),
    ("ranks",): (
        "ranks_step",
        "ranks_ask",
        "ranks_match",
        "ranks_acks",
        "ranks_prefetch",
        "ranks_hit",
        "ranks_poll",
        "ranks_load",
        "ranks_lost",
    ),
}
"""Which capabilities it takes to make calls of which kinds; ``refused_…`` needs what the call needs."""

CALL_NEEDS = {call: needs for needs, calls in CALLS_BY_NEED.items() for call in calls}

DEPTHS = {1: "the pool's counters", 2: "events", 3: "a full snapshot"}

FACT_NEEDS = dict.fromkeys(("evictable", "protected", "evictable_before", "protected_before"), "counters")
"""Facts of depth 1 that do not come from the pool."""

OWNING = frozenset({"owned_after", "owned_twice"})
"""Facts about who owns pages, which takes a pool or requests: a page store alone has neither."""

SITUATIONS = {"held_sources": "steps", "sparse_promise": "sparse_admission"}
"""Facts that say nothing without a port: no copy is under way, and no row was promised anything."""

OF_RANKS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (On.RANKS_PREFETCH, On.RANKS_HIT, On.RANKS_POLL, "ranks_fetching", "ranks_stated"),
        ("prefetch", "no prefetches"),
    ),
    On.RANKS_LOAD: ("load", "no loads back"),
    On.RANKS_LOST: ("die", "no ranks that can be lost"),
    "ranks_detached": ("attach", "no storage that comes and goes"),
}
"""Calls on ranks, and premises, to which nothing leads where a cache says that it hasn't what is named here."""

MATCH_SLOTS = frozenset({"match_slots", "found_names"})
"""Facts that a target keeps to itself when its match names no slots."""

EXIT_WORDS = {
    0: "every rule that applies holds",
    1: "a rule is violated, or the baseline is out of date",
    2: "wrong usage",
    3: "the adapter or the harness failed",
    4: "inconclusive, or something was not exercised",
    **dict.fromkeys(ending.CODES, ending.INTERRUPTED),
}


NOT_WHOLE = "not the whole run"
"""How the meaning of an exit code begins where shards are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a run set out to do.

    ``misuse``, ``publish``, ``aborted``: what the profile says of them.
    ``full``: the whole deterministic set was run, so that what was not exercised is a failure.
    ``partial``: the run was interrupted.  ``stopped``: it ended by itself at the first cause.  ``changed``: how it
    showed that the judge was changed, if it was: nothing that it said is worth anything then.  ``lacking``: of shards
    that were merged, those that are missing, in words; such a run is a partial one.
    """

    depth: int = 3
    misuse: str = "undefined"
    publish: str = "explicit"
    aborted: str = "dropped"
    force_misuse: bool = False
    full: bool = True
    partial: bool = False
    stopped: bool = False
    changed: str = ""
    lacking: str = ""
    capabilities: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class Group:
    """Findings that say the same: the shortest of them, and all items in which its first rule was broken.

    ``leads``: it broke without another rule having been muted before.  ``cause``: what it is known by.  ``only``: the
    write policy under which alone the rule was broken, where more than one was played.
    """

    finding: Finding
    cause: Cause
    items: list[str] = field(default_factory=list)
    leads: bool = True
    only: str = ""


def explanation(finding: Finding) -> str:
    """The rules of a finding, and what it says without the numbers: equal for findings that are one and the same."""
    text = f"{finding.call.partition('(')[0]}|{finding.detail or finding.allowed}"
    return f"{cause_of(finding).id}|{'+'.join(finding.rules)}|" + re.sub(r"\d+(?:[ ,]+\d+)*", "#", text)


def group(results: Sequence[ItemResult], minimal: Sequence[Short] = ()) -> list[Group]:
    """What was found, one group per rules and explanation.

    ``minimal`` are the shrunk counterexamples.  Of the others only those of litmus tests count,
    which are short by themselves, and those that alone show a rule.
    """
    raw = [one for result in results for one in ranked(result)]
    pool = [*minimal, *(one for one in raw if one.leads and one.finding.litmus)]
    covered = {rule for one in pool for rule in one.finding.rules}
    for one in sorted(raw, key=lambda one: len(one.finding.calls)):
        if not covered.issuperset(one.finding.rules):
            pool.append(one)
            covered.update(one.finding.rules)
    items: dict[str, list[str]] = {}
    for result in results:
        for rule in dict.fromkeys(rule for finding in result.findings for rule in finding.rules):
            items.setdefault(rule, []).append(result.item)
    groups: dict[str, Group] = {}
    for short in pool:
        finding = short.finding
        fresh = Group(finding=finding, cause=cause_of(finding), leads=short.leads)
        known = groups.setdefault(explanation(finding), fresh)
        known.items = items.get(known.finding.rules[0], [finding.item])
        if (not short.leads, len(finding.calls)) < (not known.leads, len(known.finding.calls)):
            known.finding, known.leads = finding, short.leads
    written = {write_of(result) for result in results if result.steps} - {""}
    by_item = {result.item: result for result in results}
    for each in groups.values():
        under = {write_of(by_item[item]) for item in each.items if item in by_item}
        each.only = under.pop() if len(under) == 1 and len(written) > 1 else ""
    return list(groups.values())


def write_of(result: ItemResult) -> str:
    """The write policy of the configuration that an item was played in; empty where there is none."""
    words = result.config.split()
    return next((one for one in WRITES if one in words), "")


def shortest(groups: Sequence[Group], rule: str) -> int | None:
    """Which group has the shortest counterexample for a rule; one that the rule leads wins a tie."""
    having = [at for at, one in enumerate(groups) if rule in one.finding.rules]
    if not having:
        return None
    return min(
        having,
        key=lambda at: (
            not groups[at].leads,
            groups[at].finding.rules.index(rule) if len(groups[at].finding.calls) > BRIEF else 0,
            len(groups[at].finding.calls),
            groups[at].finding.rules.index(rule),
            at,
        ),
    )


def follows(findings: Sequence[Short], accepted: Sequence[bool] = ()) -> list[int | None]:
    """Of each finding, which one it follows from, probably; ``None`` for a headline: where to start.

    ``accepted``: whether a baseline knows it; what it knows follows from nothing else, and nothing else from it.

    Where to start: what broke first in its schedule, a MUST before a SHOULD, in the fewest calls.  Another finding
    follows from that one if it has the same cause; if it breaks one of the same rules, or a rule of what follows from
    it, or broke only after one of these had been broken; or if :func:`leads_to` says so.  One that
    broke first in its schedule, and the rule of a headline under another policy, or after cache and reference had
    parted elsewhere, is a headline of its own.
    """
    accepted = accepted or [False] * len(findings)
    causes = [cause_of(one.finding).id for one in findings]

    def order(at: int) -> tuple[bool, bool, int, int]:
        finding, leads = findings[at]
        should = all(all_rules()[id].strength is Strength.SHOULD for id in finding.rules if id in all_rules())
        return not leads, should, len(finding.calls), at

    heads: dict[int, set[str]] = {}

    def head_of(at: int) -> int | None:
        finding, leads = findings[at]
        broken = {*finding.rules, *finding.after, *IDS.findall(finding.detail)}
        open_to = [one for one in heads if accepted[one] == accepted[at]]
        same = next((one for one in open_to if causes[one] == causes[at]), None)
        if same is not None:
            return same
        if leads and any(otherwise(findings[one].finding, finding) for one in open_to):
            return None
        head = next((one for one in open_to if not heads[one].isdisjoint(broken)), None)
        if head is None:
            head = next((one for one in open_to if leads_to(findings[one].finding, finding)), None)
        return next(iter(open_to), None) if head is None and not leads else head

    found: list[int | None] = [None] * len(findings)
    for at in sorted(range(len(findings)), key=order):
        head = found[at] = head_of(at)
        heads.setdefault(at if head is None else head, set()).update(findings[at].finding.rules)
    return found


def leads_to(one: Finding, other: Finding) -> bool:
    """Whether one finding may be how the other begins, though they break different rules.

    The last call of the one is where cache and reference parted in the other; or, where no parting is seen, they are
    of one family, and all that the one took the other took too.
    """
    if parting(other):
        return parting(other) in (method_of(one.call), parting(one))
    same = pack_of(one.rules[0]) == pack_of(other.rules[0]) != "misuse"
    return same and not other.parted and kinds_of(one) <= kinds_of(other)


def otherwise(one: Finding, other: Finding) -> bool:
    """Whether two findings break the same rule, but under another policy or after parting elsewhere."""
    ways = [(finding.config.policy, parting(finding)) for finding in (one, other)]
    return one.rules[0] == other.rules[0] and ways[0] != ways[1]


IDS = re.compile(r"\b[A-Z]+-[0-9]{2}\b")
"""The rules that a text names: what a cache that was misused breaks later, for one."""


def accepted_of(findings: Sequence[Short], known: Set[tuple[str, str]]) -> list[bool]:
    """Of each finding, whether a baseline that knows these rules, each by a cause, accepts it.

    What broke only after rules that what is known breaks had been broken in the same schedule says nothing new.
    """
    own = [not known.isdisjoint(keys_of(one.finding)) for one in findings]
    broken = {rule for one, is_known in zip(findings, own, strict=True) if is_known for rule in one.finding.rules}
    return [
        is_known or (not leads and not broken.isdisjoint(finding.after))
        for (finding, leads), is_known in zip(findings, own, strict=True)
    ]


def keys_of(finding: Finding) -> set[tuple[str, str]]:
    """What a baseline may know a finding by: each rule that it breaks, with its cause.

    A baseline may have been written when these rules had other ids; the family of the first one is part of the cause.
    """
    first, *others = finding.rules
    causes = [cause_of(replace(finding, rules=[one, *others])).id for one in (first, *said_before(first))]
    rules = [one for rule in finding.rules for one in (rule, *said_before(rule))]
    return {(rule, cause) for rule in rules for cause in causes}


def main_rule(rules: Sequence[str]) -> str:
    """Of rules that one call breaks, the one that stands for them: the first MUST, else the first."""
    known = all_rules()
    return next((id for id in rules if id not in known or known[id].strength is Strength.MUST), rules[0])


def kinds_of(finding: Finding) -> Counter[str]:
    """The calls of a finding by method; that storage is attached, the suite does itself."""
    return Counter(method_of(call) for call in finding.calls if not call.startswith("attach("))


def conclude(
    rules: Mapping[str, Rule], results: Sequence[ItemResult], groups: Sequence[Group], scope: Scope
) -> list[RuleVerdict]:
    """The verdict on each of the given rules, in their order."""
    if scope.changed:
        return [RuleVerdict(rule=id, verdict=Verdict.HARNESS_ERROR, reason=scope.changed) for id in rules]
    evaluated: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    for result in results:
        evaluated.update(result.evaluated)
        stops.update(finding.rules[0] for finding in result.findings)
    verdicts = []
    for id, rule in rules.items():
        broken = [at for at, one in enumerate(groups) if id in one.finding.rules]
        if broken:
            verdict = Verdict.VIOLATED if rule.strength is Strength.MUST else Verdict.WARNED
            reason = ""
        elif evaluated[id]:
            verdict, reason = Verdict.PASSED, ""
        else:
            verdict, reason = unevaluated(rule, results, stops, scope)
        verdicts.append(
            RuleVerdict(rule=id, verdict=verdict, reason=reason, evaluations=evaluated[id], findings=broken)
        )
    return verdicts


def unevaluated(rule: Rule, results: Sequence[ItemResult], stops: Counter[str], scope: Scope) -> tuple[Verdict, str]:
    """Why a rule was never evaluated; see the order of grounds at the top of this module."""
    why = inapplicable(rule, results, scope)
    if why:
        return Verdict.NOT_APPLICABLE, why
    if scope.stopped:
        return Verdict.INCONCLUSIVE, "the run stopped at the first cause, before it got there"
    if stops:
        by, times = stops.most_common(1)[0]
        return Verdict.BLOCKED, f"by {by}: {times} run{'s' * (times != 1)} ended there"
    if scope.partial:
        why = (
            f"nobody got there, and {scope.lacking}" if scope.lacking else "the run was interrupted before it got there"
        )
        return Verdict.INCONCLUSIVE, why
    errors = [result for result in results if result.error]
    if errors:
        return Verdict.HARNESS_ERROR, f"{errors[0].item}: {errors[0].error}"
    if not results:
        return Verdict.INCONCLUSIVE, "nothing was run"
    idle = sum(result.idle[rule.id] for result in results)
    if idle:
        return Verdict.NOT_EXERCISED, f"judged {idle:,} times, but never where it matters ({rule.premise_text})"
    return Verdict.NOT_EXERCISED, "the capability is declared, but no call led there"


def inapplicable(rule: Rule, results: Sequence[ItemResult], scope: Scope) -> str:
    """Why a rule can't be judged on this target in this run; empty where it can."""
    played = [result for result in results if not result.unsupported and not result.error]
    capabilities = scope.capabilities.union(*(result.capabilities for result in results))
    if results and all(result.unsupported for result in results):
        declined = next((result for result in results if not result.left_out), None)
        if declined is not None:
            return f"configuration declined: {declined.unsupported}"
        if not scope.stopped:  # else it is what happened to be played first
            return f"configuration not asked for: {results[0].unsupported}"
    if PIPED in capabilities and rule.id in UNSEEN:
        return UNSEEN[rule.id]
    if capabilities or played:
        lacking = missing(rule, capabilities)
        if PIPED in capabilities and (apart := sorted(lacking & APART.keys())):
            return APART[apart[0]]
        if lacking == {"scheme"}:
            return "the profile names a hash_scheme whose bytes are not known"
        if FLAT in lacking:
            return "the target has a host tier, and the rule is about caches without one"
        if lacking and layered(capabilities):
            if why := untried(rule, scope) or of_no_pool(rule, capabilities, lacking, scope.depth):
                return why
            return "no call on a pool of components led there" if results else ""
        if lacking:
            return f"the target offers no {' and no '.join(sorted(lacking))}"
    if rule.depth > scope.depth:
        return f"needs depth {rule.depth} ({DEPTHS[rule.depth]}), ran at {scope.depth}"
    if why := untried(rule, scope):
        return why
    if On.FINISH in rule.on and rule.premise_fact == "missing_before" and scope.publish == "at_alloc":
        return "the profile says that pages are cached when they are allocated, so nothing is missing at the end"
    if set(rule.on) == {On.ABORT} and scope.aborted == "kept":
        return "the profile says that an aborted request is kept, as one that finishes"
    if set(rule.on) == {On.AGAIN} and played and all(" host=" in result.config for result in played):
        return "a second cache is played beside flat caches alone"
    said = frozenset[str]().union(*(result.declined for result in played))
    ways = [OF_RANKS.get(on, ("", "")) for on in rule.on], [OF_RANKS.get(rule.premise_fact, ("", ""))]
    for way in ways:
        if way and all(what in said for what, _ in way):
            return f"the target says that it has {' and '.join(dict.fromkeys(text for _, text in way))}"
    # Where nothing is there yet, what is left out elsewhere may be known, and have nothing to say.
    unknown = sum(result.unknown[rule.id] for result in played)
    if MATCH_SLOTS & set(rule.facts) and unknown:
        return "the target's match names no slots"
    if unknown:
        return f"not decidable with what is seen here ({unknown:,} evaluation{'s' * (unknown != 1)} skipped)"
    return ""


def layered(capabilities: frozenset[str]) -> bool:
    """Whether these are a cache of components, and nothing else."""
    has = not capabilities.isdisjoint(("components", "component_requests"))
    return has and capabilities.isdisjoint(("pool", "lookup", "tiers"))


def of_no_pool(rule: Rule, capabilities: frozenset[str], lacking: frozenset[str], depth: int) -> str:
    """Why a rule is judged of no pool of components, each of which is a plain cache; empty where it may be."""
    pools = [
        frozenset[str]().union(*[ports[one] for one in ports.keys() & capabilities])
        for where, ports in PORTS.items()
        if where != BOTH or rule.id in LAWS
    ]
    lacks = min([missing(rule, has) for has in pools], key=len)
    if not lacks:
        return f"needs depth {rule.depth} ({DEPTHS[rule.depth]}), ran at {depth}" if rule.depth > depth else ""
    asked = sorted(port for port, has in PORTS[DEVICE].items() if len(has) == 1 and has <= lacks)
    if asked and lacks <= frozenset[str]().union(*[PORTS[DEVICE][port] for port in asked]):
        return f"the target offers no {' and no '.join(asked)}"
    if lacks <= CACHE_PORTS.keys():
        return f"not judged of components, which have no port {' and no '.join(sorted(lacks))}"
    return f"the target offers no {' and no '.join(sorted(lacking))}"


def of_pools(rule: Rule) -> bool:
    """Whether a rule of plain caches is judged of the pools of a cache of components as well, if it has all ports."""
    mine = rule.on and rule.pack not in ("comp", "creq", "misuse")
    return bool(mine) and not of_no_pool(rule, frozenset(COMPONENT_PORTS), frozenset(), max(DEPTHS))


def untried(rule: Rule, scope: Scope) -> str:
    """Why the contract isn't broken where a rule is about nothing else; empty where it is."""
    if is_misuse(rule) and scope.misuse == "undefined" and not scope.force_misuse:
        return "the profile says that misuse is undefined (--force-misuse tries it anyway)"
    return ""


def is_misuse(rule: Rule) -> bool:
    """Whether a rule is about what the contract forbids, and about nothing else."""
    return rule.pack == "misuse" or set(rule.on) == {On.SPARSE_MISUSE}


def missing(rule: Rule, capabilities: frozenset[str]) -> frozenset[str]:
    """The capabilities that a rule needs and a target lacks: for the calls it is about, else for what must be seen."""
    if "tiers" not in capabilities:
        capabilities |= {FLAT}
    lacking = set(rule.needs - capabilities)
    if rule.on:
        ways = [frozenset(CALL_NEEDS.get(kind.removeprefix("refused_"), ())) - capabilities for kind in rule.on]
        lacking |= min(ways, key=len)
    if lacking:
        return frozenset(lacking)
    for name in rule.facts:
        depth, ports = FACTS[name].depth, FACTS[name].ports
        if depth and ports:
            lacking |= ports - capabilities
        elif depth == 3 and "inspect" not in capabilities:
            lacking.add("inspect")
        elif name in SITUATIONS and SITUATIONS[name] not in capabilities:
            lacking.add(SITUATIONS[name])
        elif name == "unexplained" and capabilities.isdisjoint(("lookup", "requests")):
            lacking.add("lookup")
        elif name in OWNING and capabilities.isdisjoint(("pool", "requests")):
            lacking.add("pool")
        elif depth == 1 and FACT_NEEDS.get(name, "pool") not in capabilities:
            lacking.add(FACT_NEEDS.get(name, "pool"))
    return frozenset(lacking)


def exit_code(
    verdicts: Sequence[RuleVerdict],
    results: Sequence[ItemResult],
    scope: Scope,
    *,
    accepted: frozenset[str] = frozenset(),
    baseline_fails: bool = False,
) -> int:
    """The exit code of a run.

    A definite defect outranks doubts about the rest: interrupted (130, or 128 and the signal), then violated or stale
    baseline (1), then failed (3), then inconclusive or not exercised (4), then all well (0).
    ``accepted``: rules whose violation the baseline knows.
    """
    if scope.partial:
        return ending.exit_code()
    open_rules = {one.rule: one.verdict for one in verdicts if one.rule not in accepted}
    found = set(open_rules.values())
    if Verdict.VIOLATED in found or baseline_fails:
        return 1
    if Verdict.HARNESS_ERROR in found or any(result.error for result in results):
        return 3
    if Verdict.INCONCLUSIVE in found or not results or not verdicts:
        return 4
    if Verdict.NOT_EXERCISED in found and scope.full:
        return 4
    if verdicts and all(one.verdict is Verdict.NOT_APPLICABLE for one in verdicts):
        return 4
    return 0
