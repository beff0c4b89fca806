"""Verdicts and exit codes: one test per ground, each with the opposite beside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.isolation.current_run import MethodMask
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.minimise import Short, choose, minimise
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options, RuleVerdict, Verdict
from kvlitmus.conformance.run.verdicts import (
    CALL_NEEDS,
    FLAT,
    Scope,
    accepted_of,
    conclude,
    exit_code,
    follows,
    group,
    missing,
    shortest,
)
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.spec.law.rule import Rule, Strength
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.policies import WRITES

ALL = frozenset(PORTS) | {"lookup", "reattach", "scheme", "batches"}
RULES = all_rules()
ONE = Config()


def finding(
    *rules: str, calls: int = 3, call: str = "evict(1)", item: str = "random:seed=0", **more: object
) -> Finding:
    return Finding(
        rules=list(rules),
        item=item,
        config=ONE,
        call=call,
        calls=["alloc(1)"] * (calls - 1) + [call],
        allowed="",
        seen={},
        schedule=[Op("alloc")] * calls,
        steps=calls,
        **more,  # type: ignore[arg-type]
    )


def result(item: str = "random:seed=0", **more: object) -> ItemResult:
    more = {"capabilities": sorted(ALL), "config": ONE.label, **more}
    return ItemResult(item=item, steps=10, **more)  # type: ignore[arg-type]


def verdict_on(id: str, results: list[ItemResult], scope: Scope | None = None) -> RuleVerdict:
    scope = scope or Scope(capabilities=ALL)
    (said,) = conclude({id: RULES[id]}, results, group(results), scope)
    return said


def test_evaluated_and_never_broken_is_passed() -> None:
    said = verdict_on("TREE-03", [result(evaluated=Counter({"TREE-03": 2})), result(evaluated=Counter({"TREE-03": 3}))])
    assert (said.verdict, said.evaluations, said.reason) == (Verdict.PASSED, 5, "")


def test_broken_once_is_violated_however_often_it_held() -> None:
    results = [result(evaluated=Counter({"TREE-03": 1000})), result(findings=[finding("TREE-03")])]
    said = verdict_on("TREE-03", results)
    assert (said.verdict, said.findings) == (Verdict.VIOLATED, [0])


def test_rules_whose_ids_differ_in_the_number_alone_are_not_taken_for_one() -> None:
    """Two counterexamples that say the same of two rules of a pack are two violations, not one."""
    results = [result(findings=[finding("MISUSE-01")]), result(findings=[finding("MISUSE-03")])]
    for id in ("MISUSE-01", "MISUSE-03"):
        assert verdict_on(id, results).verdict is Verdict.VIOLATED


def test_a_broken_should_is_a_warning() -> None:
    weak = replace(RULES["TREE-03"], strength=Strength.SHOULD)
    results = [result(findings=[finding("TREE-03")])]
    (said,) = conclude({"TREE-03": weak}, results, group(results), Scope(capabilities=ALL))
    assert said.verdict is Verdict.WARNED
    assert exit_code([said], results, Scope()) == 0


@pytest.mark.parametrize(
    ("id", "lacking", "named"),
    [
        ("LOCK-03", "locks", "locks"),
        ("LOCK-02", "counters", "counters"),
        ("POOL-09", "inspect", "inspect"),
        ("POOL-19", "group", "group"),
        ("REQ-01", "requests", "requests"),
        ("TREE-01", "lookup", "lookup"),
        ("HASH-01", "hashes", "hashes"),
        ("HASH-01", "scheme", "hash_scheme"),
        ("PREFETCH-01", "prefetch", "prefetch"),
        ("SPARSE-42", "sparse_admission", "sparse_admission"),
        ("TIER-11", "steps", "steps"),
    ],
)
def test_what_the_target_lacks_is_not_applicable(id: str, lacking: str, named: str) -> None:
    less = ALL - {lacking}
    if id == "TREE-01":  # a match is also seen at the beginning of a request
        less -= {"requests"}
    said = verdict_on(id, [result(capabilities=sorted(less))], Scope(capabilities=less))
    assert said.verdict is Verdict.NOT_APPLICABLE
    assert named in said.reason
    assert verdict_on(id, [result()]).verdict is Verdict.NOT_EXERCISED


def test_a_rule_about_several_calls_needs_only_one_of_them() -> None:
    assert missing(RULES["TREE-01"], ALL - {"lookup"}) == frozenset()
    assert missing(RULES["TREE-01"], ALL - {"requests"}) == frozenset()


def test_what_a_snapshot_leaves_out_is_not_applicable_though_an_empty_tree_has_none_of_it() -> None:
    for id in ("LOCK-03", "LOCK-04", "TREE-13", "TREE-14"):
        said = verdict_on(id, [result(unknown=Counter({id: 7}), idle=Counter({id: 3}))])
        assert (said.verdict, "7 evaluations skipped" in said.reason) == (Verdict.NOT_APPLICABLE, True)
        assert verdict_on(id, [result(idle=Counter({id: 3}))]).verdict is Verdict.NOT_EXERCISED


def test_a_block_table_has_nothing_left_to_cache_at_the_end() -> None:
    seen = [result(idle=Counter({"TREE-08": 3}))]
    assert verdict_on("TREE-08", seen).verdict is Verdict.NOT_EXERCISED
    assert verdict_on("TREE-08", seen, Scope(publish="at_alloc", capabilities=ALL)).verdict is Verdict.NOT_APPLICABLE


def test_what_a_host_tier_without_background_work_has_no_occasion_for_is_not_applicable() -> None:
    """Its copies end within the call, nothing is prefetched, and a second cache is played beside flat ones alone."""
    tiered = result(config="page=4 lru pages=20 host=16 write_through")
    assert verdict_on("EVICT-07", [tiered]).reason == "a second cache is played beside flat caches alone"
    assert verdict_on("EVICT-07", [tiered, result()]).verdict is Verdict.NOT_EXERCISED
    ports = frozenset(["pool", "tree", "locks", "evict", "host", "tiers", "data", "lookup", "requests", "inspect"])
    for id in ("TIER-11", "FETCH-12", "FETCH-14"):
        assert missing(RULES[id], ports) and not missing(RULES[id], ports | {"steps"}), id


def test_every_call_that_rules_speak_of_has_its_capabilities() -> None:
    told = [rule for rule in RULES.values() if not rule.needs]  # others say themselves what they need
    kinds = {kind.removeprefix("refused_") for rule in told for kind in rule.on}
    assert kinds - CALL_NEEDS.keys() == set()
    assert {port for needs in CALL_NEEDS.values() for port in needs} - {FLAT} <= ALL


def test_no_rule_names_a_capability_that_its_calls_imply() -> None:
    for id, rule in RULES.items():
        implied = [frozenset(CALL_NEEDS.get(kind.removeprefix("refused_"), ())) for kind in rule.on]
        told = rule.needs - {"reattach"}  # who is given storage once is asked to attach it, too
        assert not implied or told.isdisjoint(frozenset.intersection(*implied)), id


def test_with_every_capability_no_rule_lacks_anything() -> None:
    """A rule about every call of a flat cache lacks nothing of one that has no tiers."""
    flat = ALL - {"tiers"}
    assert [id for id, rule in RULES.items() if missing(rule, ALL) and missing(rule, flat)] == []


def test_too_little_depth_is_not_applicable() -> None:
    deep = next(id for id, rule in RULES.items() if rule.depth == 3)
    said = verdict_on(deep, [result()], Scope(depth=1, capabilities=ALL))
    assert said.verdict is Verdict.NOT_APPLICABLE
    assert "depth 3" in said.reason
    assert "1" in said.reason


@pytest.mark.parametrize(
    ("misuse", "force", "expected"),
    [
        ("undefined", False, Verdict.NOT_APPLICABLE),
        ("undefined", True, Verdict.NOT_EXERCISED),
        ("reject", False, Verdict.NOT_EXERCISED),
    ],
)
def test_undefined_misuse_is_not_applicable_unless_forced(misuse: str, force: bool, expected: Verdict) -> None:
    scope = Scope(misuse=misuse, force_misuse=force, capabilities=ALL)
    assert verdict_on("MISUSE-02", [result()], scope).verdict is expected


def test_a_target_that_declines_everything_is_not_applicable() -> None:
    said = verdict_on("POOL-01", [result(unsupported="only page 64")], Scope(capabilities=ALL))
    assert (said.verdict, said.reason) == (Verdict.NOT_APPLICABLE, "configuration declined: only page 64")


def test_what_a_run_that_stopped_happened_to_leave_out_is_no_ground() -> None:
    """The reason is the port that lacks, whichever items were played before the run stopped."""
    alone = Scope(capabilities=frozenset({"pool"}), stopped=True)
    for needs in ("reset", "group", "steps"):
        said = verdict_on("POOL-13", [result(unsupported=f"a/b needs {needs}", left_out=True, capabilities=[])], alone)
        assert (said.verdict, said.reason) == (Verdict.NOT_APPLICABLE, verdict_on("POOL-13", [], alone).reason)
    asked = verdict_on("POOL-01", [result(unsupported="no attach", left_out=True)], Scope(capabilities=ALL))
    assert (asked.verdict, asked.reason) == (Verdict.NOT_APPLICABLE, "configuration not asked for: no attach")


class PoolAlone:
    """The pool of the specimen, and nothing else of it."""

    profile = specimen.profile

    def make(self, config: Config) -> object:
        others = (method for port, methods in PORTS.items() if port != "pool" for method in methods)
        return MethodMask(specimen.make(config), frozenset(others))


def test_nothing_is_found_in_a_pool_alone() -> None:
    """What goes by what is found has nothing to judge there; EVICT-24 says what an allocation takes, of any pool."""
    play = run_item(PoolAlone(), Item(kind="random", config=Config(), seed=1, ops=60), Options())
    assert play.steps > 40
    found = conclude(all_rules(), [play], [], Scope(capabilities=frozenset({"pool"})))
    idle = {one.rule for one in found if one.verdict is Verdict.PASSED}
    assert {rule for rule in idle if not rule.startswith(("POOL-", "PORT-", "MISUSE-"))} == {"EVICT-24"}
    evict = next(one for one in found if one.rule == "EVICT-20")
    assert evict.reason == "the target offers no lookup"


LAYERS = frozenset({"component_lookup", "components", "component_counters", "component_view"})


@pytest.mark.parametrize(
    ("rule", "depth", "has", "why"),
    [
        ("POOL-12", 1, LAYERS, "needs depth 3 (a full snapshot), ran at 1"),
        ("POOL-12", 3, LAYERS - {"component_view"}, "the target offers no component_view"),
        ("EVENT-02", 3, LAYERS, "the target offers no component_events"),
        ("LOCK-02", 3, LAYERS, "the target offers no component_sizes"),
        ("POOL-19", 3, LAYERS, "not judged of components, which have no port group"),
        ("TREE-02", 0, LAYERS, "no call on a pool of components led there"),
        ("COMP-32", 3, LAYERS, "the target offers no component_host"),
        ("MISUSE-02", 3, LAYERS, "the profile says that misuse is undefined (--force-misuse tries it anyway)"),
        ("STORE-01", 3, LAYERS, "the target offers no store"),
        ("LOCK-02", 3, LAYERS | {"pool", "lookup"}, "the target offers no counters and no inspect"),
    ],
)
def test_why_a_rule_is_not_judged_of_components(rule: str, depth: int, has: frozenset[str], why: str) -> None:
    play = result(capabilities=sorted(has))
    (found,) = conclude({rule: RULES[rule]}, [play], [], Scope(depth=depth, capabilities=has))
    assert (found.verdict, found.reason) == (Verdict.NOT_APPLICABLE, why)


def test_a_rule_says_that_it_is_judged_of_pools_of_components(capsys: pytest.CaptureFixture[str]) -> None:
    for rule, besides in (("TREE-03", True), ("POOL-18", False), ("COMP-12", False), ("STORE-01", False)):
        assert main(["rules", rule, "--color", "never"]) == 0
        assert ("of each pool of a cache of components" in " ".join(capsys.readouterr().out.split())) is besides, rule


def test_a_rule_of_plain_caches_is_played_for_on_components(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--steps", "0", "--config", "components=kv+index", "--jobs", "1", "--color", "never"]
    assert main(["run", "components", "--rule", "TREE-02", *words]) == 0
    assert "1 passed" in capsys.readouterr().out


def test_a_rule_that_breaks_under_one_write_policy_alone_says_so() -> None:
    labels = [f"page=4 lru host=8 {write}" for write in WRITES]
    broken = [finding("BACKUP-01", item=f"i {label}") for label in labels]

    def only(*under: int, played: int = 3) -> str:
        many = [
            ItemResult(item=f"i {label}", config=label, steps=1, findings=[broken[at]] if at in under else [])
            for at, label in enumerate(labels[:played])
        ]
        return group(many)[0].only

    assert only(2) == WRITES[2]
    assert only(0, 2) == "" and only(0, played=1) == ""


def test_matches_without_slots_leave_their_rule_out() -> None:
    said = verdict_on("TREE-03", [result(reached=Counter({"match": 4}), unknown=Counter({"TREE-03": 4}))])
    assert said.verdict is Verdict.NOT_APPLICABLE


def test_runs_that_ended_at_a_broken_rule_block_what_lies_behind() -> None:
    said = verdict_on("POOL-16", [result(findings=[finding("LOCK-02")]), result(findings=[finding("LOCK-02")])])
    assert said.verdict is Verdict.BLOCKED
    assert "LOCK-02" in said.reason
    assert "2 runs" in said.reason


def test_an_interrupted_run_decides_nothing_about_what_it_did_not_reach() -> None:
    assert verdict_on("POOL-16", [result()], Scope(partial=True, capabilities=ALL)).verdict is Verdict.INCONCLUSIVE


def test_a_failed_item_is_a_harness_error_where_nothing_else_told() -> None:
    said = verdict_on("POOL-16", [result(error="making the cache raised ValueError")])
    assert said.verdict is Verdict.HARNESS_ERROR
    assert "ValueError" in said.reason


def test_no_item_at_all_never_reads_as_passed() -> None:
    verdicts = conclude(RULES, [], [], Scope(misuse="reject", capabilities=ALL))
    assert {one.verdict for one in verdicts if not missing(RULES[one.rule], ALL)} == {Verdict.INCONCLUSIVE}
    assert Verdict.PASSED not in {one.verdict for one in verdicts}


def said(*verdicts: Verdict) -> list[RuleVerdict]:
    return [RuleVerdict(rule=id, verdict=one) for id, one in zip(RULES, verdicts, strict=False)]


PASSED, VIOLATED, HARNESS = Verdict.PASSED, Verdict.VIOLATED, Verdict.HARNESS_ERROR


@pytest.mark.parametrize(
    ("verdicts", "errors", "scope", "code"),
    [
        ((PASSED,), False, Scope(), 0),
        ((PASSED, Verdict.NOT_APPLICABLE, Verdict.WARNED), False, Scope(), 0),
        ((PASSED, VIOLATED), False, Scope(), 1),
        ((PASSED, Verdict.BLOCKED, VIOLATED), False, Scope(), 1),
        ((PASSED, HARNESS), False, Scope(), 3),
        ((PASSED,), True, Scope(), 3),
        ((VIOLATED,), True, Scope(), 1),
        ((PASSED, Verdict.NOT_EXERCISED), False, Scope(), 4),
        ((PASSED, Verdict.NOT_EXERCISED), False, Scope(full=False), 0),
        ((PASSED, Verdict.INCONCLUSIVE), False, Scope(full=False), 4),
        ((Verdict.NOT_APPLICABLE,), False, Scope(), 4),
        ((), False, Scope(), 4),
        ((VIOLATED,), True, Scope(partial=True), 130),
    ],
)
def test_exit_codes_and_their_order(verdicts: tuple[Verdict, ...], errors: bool, scope: Scope, code: int) -> None:
    results = [result(error="broken" if errors else "")]
    assert exit_code(said(*verdicts), results, scope) == code


def test_a_baseline_accepts_and_fails() -> None:
    verdicts = said(VIOLATED, PASSED)
    first = verdicts[0].rule
    assert exit_code(verdicts, [result()], Scope(), accepted=frozenset({first})) == 0
    assert exit_code(verdicts, [result()], Scope(), accepted=frozenset({verdicts[1].rule})) == 1
    assert exit_code(said(PASSED), [result()], Scope(), baseline_fails=True) == 1


def test_findings_that_say_the_same_are_one_group_with_the_shortest() -> None:
    results = [
        result("a", findings=[finding("LOCK-02", calls=9, call="evict(7)", litmus="x")]),
        result("b", findings=[finding("LOCK-02", calls=4, call="evict(31)", litmus="x")]),
        result("c", findings=[finding("LOCK-02", calls=2, call="unlock(receipt 1)", litmus="x")]),
    ]
    groups = group(results)
    assert [len(one.finding.calls) for one in groups] == [4, 2]
    assert groups[0].items == ["a", "b", "c"]
    assert shortest(groups, "LOCK-02") == 1
    assert shortest(groups, "LOCK-01") is None


def test_what_broke_first_comes_before_what_broke_when_others_were_muted() -> None:
    results = [
        result("a", findings=[finding("POOL-12", calls=6, litmus="x"), finding("TREE-07", calls=2)]),
        result("b", findings=[finding("TREE-07", calls=5, litmus="y")]),
    ]
    groups = group(results)
    at = shortest(groups, "TREE-07")
    assert at is not None
    assert (len(groups[at].finding.calls), groups[at].leads) == (5, True)


def test_every_broken_rule_has_a_counterexample_even_if_none_was_shrunk() -> None:
    results = [result(findings=[finding("POOL-12", calls=200), finding("TREE-07", calls=150)])]
    groups = group(results)
    assert {rule for one in groups for rule in one.finding.rules} == {"POOL-12", "TREE-07"}


def test_minimising_mutes_round_by_round_and_keeps_where_it_was_found() -> None:
    results = [
        result(
            "random:seed=3",
            findings=[finding("POOL-12", calls=90, item="random:seed=3"), finding("TREE-07", calls=150)],
        )
    ]
    muted: list[frozenset[str]] = []

    def play(items: object, options: Options) -> list[ItemResult]:
        muted.append(options.muted)
        assert options.reruns == 0
        rule = "TREE-07" if "POOL-12" in options.muted else "POOL-12"
        return [result("schedule", findings=[finding(rule, calls=3)]) for _ in items]  # type: ignore[attr-defined]

    short = minimise(results, play, Options(muted=frozenset({"PORT-09"})))
    assert [(one.finding.rules, len(one.finding.calls), one.leads) for one in short] == [
        (["POOL-12"], 3, True),
        (["TREE-07"], 3, False),
    ]
    assert muted == [frozenset({"PORT-09"}), frozenset({"PORT-09", "POOL-12"})]
    assert short[0].finding.item == "random:seed=3"
    assert short[0].finding.drawn_steps == 90


def test_minimising_ends_when_nothing_breaks_again() -> None:
    rounds: list[int] = []

    def play(items: list[Item], options: Options) -> list[ItemResult]:
        rounds.append(len(items))
        return [result("schedule") for _ in items]

    assert minimise([result(findings=[finding("POOL-12", calls=90)])], play, Options()) == []  # type: ignore[arg-type]
    assert rounds == [1]


def test_trials_are_shared_whatever_the_time_and_time_is_a_net() -> None:
    rules = [f"POOL-{number:02}" for number in range(1, 16)]
    results = [result(findings=[finding(rule, calls=90)]) for rule in rules]
    shares: list[tuple[int, float]] = []

    def play(items: list[Item], options: Options) -> list[ItemResult]:
        shares.append((options.shrink_trials, options.shrink_seconds))
        return [result("schedule") for _ in items]

    minimise(results, play, Options(), seconds=10.0, jobs=2, total=60.0)  # type: ignore[arg-type]
    minimise(results, play, Options(), seconds=10.0, jobs=1, total=0.0)  # type: ignore[arg-type]
    assert [trials for trials, _ in shares] == [min(2_000, 32_000 // 15)] * len(shares)
    assert 7.5 < shares[0][1] <= 8.0
    assert [seconds for _, seconds in shares[1:]] == [1.0]


def test_a_long_litmus_test_is_shrunk_as_a_schedule_and_once_only() -> None:
    """Beside the schedules that were drawn; that it breaks nothing when it is written down says nothing of the rule."""
    long = [finding("POOL-12", calls=n, litmus=f"tier/{n}") for n in (20, 30)]
    played: list[list[tuple[str, str]]] = []

    def play(items: list[Item], options: Options) -> list[ItemResult]:
        played.append([(one.kind, one.name) for one in items])
        assert "POOL-12" not in options.muted
        return [result("schedule") for _ in items]

    assert minimise([result(findings=[one]) for one in long], play, Options()) == []  # type: ignore[arg-type]
    assert played == [[("transcript", "tier/20")], [("transcript", "tier/30")]]
    drawn = [finding("POOL-12", calls=n) for n in (40, 50, 60)]
    assert [len(one.calls) for one in choose([*long, *drawn], set())] == [20, 40, 50]


def test_short_litmus_findings_and_deaths_are_not_shrunk_again() -> None:
    results = [result(findings=[finding("POOL-12", litmus="x")]), result(findings=[finding("PORT-02")])]

    def play(items: list[Item], options: Options) -> list[ItemResult]:
        assert not items
        return []

    assert minimise(results, play, Options()) == []  # type: ignore[arg-type]


def test_candidates_come_from_different_configurations_first() -> None:
    other = replace(finding("POOL-12", calls=50), config=Config(page_size=4))
    chosen = choose([finding("POOL-12", calls=n) for n in (10, 11, 12, 13)] + [other], set())
    assert [len(one.calls) for one in chosen] == [10, 50]


def test_a_short_leading_counterexample_wins_over_a_long_one() -> None:
    minimal = [Short(finding("POOL-12", calls=2), True)]
    groups = group([result(findings=[finding("POOL-12", calls=80)])], minimal)
    assert [len(one.finding.calls) for one in groups] == [2]


def test_rules_are_a_register() -> None:
    assert all(isinstance(rule, Rule) for rule in RULES.values())


def test_one_headline_for_each_cause_and_the_rest_follow() -> None:
    def one(
        rules: list[str], *calls: str, after: tuple[str, ...] = (), parted: tuple[str, ...] = (), leads: bool = True
    ) -> Short:
        found = finding(rules[0], call=f"{calls[-1]}(1)", after=list(after), parted=list(parted))
        return Short(replace(found, rules=rules, calls=[f"{call}(1)" for call in calls]), leads)

    findings = [
        one(["POOL-12"], "alloc", "insert", "evict"),
        one(["TREE-02"], "insert", "match"),
        one(["TREE-03", "TREE-02"], "match", "lock", "unlock"),
        one(["REQ-01"], "begin", after=("POOL-04",), leads=False),
        one(["POOL-04"], "alloc", "match", "insert", "insert", parted=("call 2: what is locked",)),
        one(["LOCK-02"], "lock"),
        one(["PORT-01"], "grow", leads=False),
        one(["EVICT-05"], "alloc", "insert", "match", "lock", "unlock", "evict"),
        one(["LOCK-02"], "match", "lock", "unlock", parted=("call 2: what is locked",)),
    ]
    assert follows(findings) == [None, None, 1, 1, 1, None, 5, None, None]
    known = accepted_of(findings, {("LOCK-02", cause_of(findings[5].finding).id)})
    assert known == [False] * 5 + [True] + [False] * 3
    assert follows(findings, known)[6] == 1, "what a baseline knows is no place to start"
    assert follows([]) == []
