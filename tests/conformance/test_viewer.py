"""What is drawn of plays: scenes of every kind of cache, and pages that bring nothing but their own script."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
import zlib
from typing import Any

import pytest

from kvlitmus.conformance.beside.moments import MOST_STEPS, filled, moments_of
from kvlitmus.conformance.cli.commands.replay import in_steps
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config, capabilities_of
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.failures import load, tape_of
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import component_request_target, component_target
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.tape.calls import CALLS, LOOKS
from kvlitmus.conformance.tape.changes import changed
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.viewer import page
from kvlitmus.conformance.viewer.beside import ALIKE, DECIDES, TOO_LONG, beside, shown
from kvlitmus.conformance.viewer.plain import fields, worded
from kvlitmus.conformance.viewer.scenes import Beside, Scene, scenes
from kvlitmus.spec.law.facts import FACTS
from kvlitmus.spec.parts import all_rules
from tests.conformance.test_compose import BareTarget, Forgets
from tests.conformance.viewer_plays import (
    HOSTILE,
    LEAK,
    Tape,
    config_like,
    drawn,
    finding,
    hostile_tape,
    locked,
    long_play,
    odd,
    played,
    random_play,
)
from tools import site_files


@pytest.mark.parametrize(
    ("label", "pools", "tables"),
    [
        ("page=4 lru", ["Device pool"], {"Tree", "Requests"}),
        ("page=1 lru host", ["Host pool"], set()),
        ("storage=attached best_effort", ["Device pool", "Host pool"], {"Tree", "Requests"}),
        ("page=4 lru pages=11 sparse", ["Host pool"], {"Rows"}),
        ("page=1 lru pages=8 ranks timeout", [], {"Ranks", "Free pages"}),
        ("page=1 lru store", [], {"Keys"}),
    ],
)
def test_of_each_kind_of_cache_there_is_something_to_see(label: str, pools: list[str], tables: set[str]) -> None:
    found = drawn(random_play(specimen, config_like(label)))
    assert [pool["name"].split(",")[0] for pool in found[-1]["pools"]] == pools
    assert tables <= {table["name"].split(",")[0] for scene in found for table in scene["tables"]}
    assert [scene["n"] for scene in found] == list(range(len(found)))


ALL_RIGHT = [
    *(
        (specimen, label)
        for label in ("page=4 lru pages=8", "pages=20 host=16 write_through storage=attached", "sparse")
    ),
    (component_target, "page=4 lru pages=16 kv+swa+state"),
    (component_target, "page=1 lru pages=12 host=8 kv+swa+state"),
    (component_target, "host=24 write_through storage=attached best_effort groups"),
    (component_request_target, "page=4 lru pages=24 groups"),
]


@pytest.mark.parametrize(("target", "label"), ALL_RIGHT, ids=[label for _, label in ALL_RIGHT])
def test_nothing_is_red_of_a_cache_that_is_right(target: Any, label: str) -> None:
    for scene in drawn(random_play(target, config_like(label, target), ops=120)):
        assert odd(scene) == [], scene["text"]


TWICE = "fetch/a-commit-meets-what-was-computed-meanwhile"


@pytest.mark.parametrize(
    ("broken", "pool", "kind"),
    [
        (LEAK, "Device pool", "none"),
        (("half-an-allocation-is-lost", TWICE, "host=6 write_back storage=attached"), "Host pool", "none"),
        (("commit-frees-twice", TWICE, "host=16 write_through storage=attached"), "Host pool", "two"),
    ],
)
def test_a_page_with_no_home_or_two_is_red_at_the_step_that_breaks_the_rule(
    broken: tuple[str, str, str], pool: str, kind: str
) -> None:
    found = drawn(finding(*broken))
    assert found[-1]["verdicts"]
    assert {(pool, kind)} == {(name, kind) for name, _, kind in odd(found[-1])}
    assert odd(found[-2]) == []


def test_what_is_locked_says_so_on_its_squares() -> None:
    found = drawn(random_play(specimen, config_like("page=4 lru")))
    assert not locked(found[0])
    locks = [scene for scene in found if scene["text"].startswith("lock(")]
    assert locks and all(locked(scene) for scene in locks)


def written(tape: Tape, replay: str = "") -> str:
    stream = io.StringIO()
    page.write(stream, [page.Play(*tape, replay)])
    return stream.getvalue()


def unpacked(text: str) -> list[Scene]:
    parts = re.findall(r'<script type="text/plain" class="part" data-play="0">([^<]*)</script>', text)
    found: list[Any] = []
    for part in parts:
        for at, line in enumerate(zlib.decompress(base64.b64decode(part)).split(b"\n")):
            found.append(changed(found[-1] if at else None, json.loads(line)))
    return found


def test_the_page_holds_what_is_drawn_and_lets_nothing_run_but_its_own_script() -> None:
    tape = finding(*LEAK)
    text = written(tape, replay="kvlitmus replay 'a file.jsonl'")
    assert unpacked(text) == json.loads(json.dumps(drawn(tape)))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    for name in ("script", "style"):
        (inside,) = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert re.findall(r"https?://|src=|href=|url\(|@import", text) == []
    assert html.escape("kvlitmus replay 'a file.jsonl'") in text


def test_a_finding_shows_what_the_cache_declares_of_what_it_speaks_of() -> None:
    said: dict[str, Json] = {
        "rules": ["STORE-06"],
        "allowed": "of several values the one that the profile's store_put says",
    }
    text = page.finding_of(0, said, "", page.Where(6), {"store_put": "first", "align": "reject"})
    assert "<dt>declared</dt><dd>store_put first</dd>" in text and "align" not in text
    assert "either leaves" in text and "*" not in text
    said["allowed"] = "one value"
    assert "<dt>declared" not in page.finding_of(0, said, "", page.Where(6), {"store_put": "first"})


def test_a_finding_says_at_once_what_was_seen_and_each_thing_once() -> None:
    said: dict[str, Json] = {
        "rules": ["FETCH-12"],
        "allowed": "at most [‹1›]",
        "seen": {"came_by_commits": "[‹2›]", "commit_range": "[‹1›]"},
    }
    text = page.finding_of(0, said, "")
    assert '<p class="fault">Seen: came by commits [‹2›]. Allowed: at most [‹1›]</p>' in text
    assert "<dt>commit range" not in text and FACTS["commit_range"].meaning in html.unescape(text)
    raised: dict[str, Json] = {
        "rules": ["PORT-01"],
        "allowed": all_rules()["PORT-01"].text,
        "detail": "the call raised",
    }
    assert '<p class="fault">Seen: the call raised</p>' in page.finding_of(0, raised, "")
    assert "fault" not in page.finding_of(0, {"rules": ["POOL-12"]}, "")


RETIRED = "hazards/H-04.jsonl"


def test_a_finding_of_a_retired_rule_is_one_of_the_rule_that_says_it_now() -> None:
    play = published(RETIRED)
    assert fields(play.header["finding"])["rules"] == ["TIER-01"]
    assert {one["rule"] for scene in scenes_of(RETIRED) for one in scene["verdicts"]} == {"POOL-12"}
    text = page.finding_of(0, fields(play.header["finding"]), "")
    assert "breaks <b>POOL-12</b>: " in text and "TIER-01" not in text
    assert page.title_of(play.header).startswith("POOL-12: ")


def test_no_text_of_a_tape_is_markup() -> None:
    text = written(hostile_tape(), replay=HOSTILE)
    outside = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", text, flags=re.DOTALL)
    assert re.findall(r"<(?:img|script>alert)", outside) == []
    assert "\x1b" not in outside
    assert "\u202e" not in outside
    assert len(unpacked(text)) == 4
    assert text.count('"use strict"') == 1  # nor is it a template


NONSENSE: list[Any] = [
    None,
    True,
    -1,
    1 << 70,
    0.5,
    "text",
    [],
    [[1]],
    {"a": 1},
    {"$": "tuple", "of": 3},
    {"@": {}},
    {"~": 5},
]


@pytest.mark.parametrize(
    "config", [{}, {"pool": "sparse"}, {"pool": "ranks"}, {"pool": "store"}, {"components": "kv+swa", "pages": 8}]
)
def test_a_tape_of_nonsense_is_drawn_all_the_same(config: dict[str, Any]) -> None:
    methods = [*CALLS, "reset", "no_such_call", "_init__"]
    looks = {
        key: NONSENSE[at % len(NONSENSE)]
        for at, key in enumerate([*LOOKS, "ranks_view(0)", "ranks_view([", "sparse_device_buffer(1)"])
    }
    steps: list[dict[str, Any]] = []
    for at, value in enumerate(NONSENSE):
        steps += [
            {
                "call": name,
                "args": [value, NONSENSE[at - 3]],
                "answer": NONSENSE[at - 5],
                "did": [value],
                "looks": looks,
            }
            for name in methods
        ]
        looks = {key: NONSENSE[(NONSENSE.index(one) + 1) % len(NONSENSE)] for key, one in looks.items()}
    assert len(drawn(({"config": config}, steps))) == 1 + len(steps)  # nobody looked at the fresh cache


def published(name: str) -> page.Play:
    failure = load(site_files.FOLDER / name)
    return shown(failure.header.data, [step.data for step in failure.steps], "")


def rows_of(one: Beside) -> list[list[str]]:
    return [row.cells for row in one.table["rows"]] if one.table else []


@pytest.mark.parametrize(
    ("name", "row", "answer"),
    [
        ("sglang-0.5.23-rust/EVICT-05-20591449", ["free pages of the device", "2, 4…32", "3…32"], ("16", False)),
        (
            "sglang-0.5.13.post1-hicache/LOCK-04-7fe72e0d",
            ["‹2 1 1 1 1 1 1 1› on the device", "page 2", "–"],
            ("before 4, slots [8…19]", False),
        ),
        ("sglang-0.5.13.post1-hisparse/SPARSE-17-7f50c830", ["row 0", "–", "pages 0, 1"], ("none", False)),
        (
            "sglang-0.5.13.post1-swa/COMP-15-e12e3aa9",
            ["kv of ‹1 1 1 1› on the device", "place 1", "place 4"],
            ("kv [4]", True),
        ),
        (
            "sglang-0.5.13.post1-ranks/RANKS-01-6e3c2ae2",
            ["rank 0: host free", "7", "8"],
            (DECIDES, False),
        ),
        ("sglang-0.5.13.post1-file/STORE-10-611c7ebd", ["answer", "[a miss, a miss]"], ("[a miss, a miss]", True)),
        ("sglang-0.5.13.post1/MISUSE-01-0dba4c44", ["answer", "none", "[1]"], ("none", True)),
    ],
)
def test_the_reference_stands_beside_a_finding_of_every_family(
    name: str, row: list[str], answer: tuple[str, bool]
) -> None:
    play = published(f"{name}.jsonl")
    found = list(scenes(play.steps, [page.family_of(play.header)], play.beside))
    last = found[-1]
    assert (last["expected"], last["unlike"]) == answer
    assert last["beside"] is not None
    rows = [one.cells for one in last["beside"]["rows"]]
    assert row in [cells[: len(row)] for cells in rows]
    text = written((dict(play.header), [dict(step) for step in play.steps]))
    assert "reference" not in json.dumps([one["beside"] for one in unpacked(text)]), "it is judged again for it"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sglang-0.5.13.post1-hicache/TIER-12-6670d2de", "step 43 breaks FETCH-05, which this play passes over"),
        ("sglang-0.5.13.post1-requests/TREE-07-b7dcede1", "step 6 breaks POOL-12, REQ-11, FRAME-02, which this play"),
        ("sglang-0.5.13.post1-hisparse/POOL-12-271a2b1a", "step 2 breaks SPARSE-06, which this play passes over"),
        ("sglang-0.5.13.post1/MISUSE-01-0dba4c44", "step 3 breaks no rule by itself"),
        ("sglang-0.5.13.post1-hicache/LOCK-04-7fe72e0d", ""),
    ],
)
def test_what_differs_before_the_finding_is_accounted_for(name: str, said: str) -> None:
    play = published(f"{name}.jsonl")
    assert play.before.startswith(said) and bool(play.before) is bool(said)
    stream = io.StringIO()
    page.write(stream, [play])
    assert (f"<dt>before</dt><dd>{play.before}</dd>" in stream.getvalue()) is bool(said)


RIGHT = [
    *((specimen, label) for label in ("page=4 lru", "page=1 lru host", "bigram", "pages=20 host=6 write_back")),
    (specimen, "host=16 write_through storage=attached best_effort"),
    *((specimen, label) for label in ("ranks timeout", "page=1 lru store")),
    (component_target, "page=4 lru pages=16 kv+swa+state"),
]


@pytest.mark.parametrize(("target", "label"), RIGHT, ids=[label for _, label in RIGHT])
def test_a_cache_that_is_right_differs_from_the_reference_in_nothing(target: Any, label: str) -> None:
    config = config_like(label, target)
    ops = tuple(draw(1, 50, table(capabilities_of(target.make(config)))))
    header, steps = played(target, Item(kind="schedule", config=config, schedule=ops))
    found = beside(header, steps)
    assert len(found) > 30
    assert [step for step, one in found.items() if one.differs or rows_of(one)] == []
    assert any(one.answer for one in found.values())
    first = 1 if "call" in steps[0] else 0
    alike = {step for step, one in found.items() if one.table is not None and one.table["name"] == ALIKE}
    assert alike == {step for step in found if "looks" in steps[step - first]} & alike, "of nothing that nobody saw"
    assert alike or config.pool == "store"


@pytest.mark.parametrize("label", ["page=1 lru pages=12 host=8 kv+swa+state", "host=16 write_through kv+swa+state"])
def test_the_reference_goes_along_with_components_on_both_tiers(label: str) -> None:
    """Which places a backup takes, also one that it begins by itself, and what a copy protects, a cache may choose."""
    config = config_like(label, component_target)
    ops = tuple(draw(1, 80, table(capabilities_of(component_target.make(config)))))
    header, steps = played(component_target, Item(kind="schedule", config=config, schedule=ops))
    found = moments_of(header, steps)
    assert {one.get("call") for one in steps} >= {"component_copied", "component_load", "component_evict_host"}
    assert len(found) == len(steps) and not any(one.left for one in found.values())


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("hicache/LIFE-07-fc89c329", ["units that prefetches occupy", "0", "1"]),
        ("hicache/POOL-12-5fbb4399", ["host pages of work under way", "1", "0"]),
    ],
)
def test_what_a_tick_may_take_note_of_later_is_no_difference(name: str, row: list[str]) -> None:
    """But when the cache is at rest it is one."""
    play = published(f"sglang-0.5.13.post1-{name}.jsonl")
    steps = list(play.steps)
    found = {step: rows_of(one) for step, one in beside(play.header, steps).items() if one.differs or rows_of(one)}
    (last,) = [number for number, step in enumerate(steps) if "verdicts" in step]
    assert found.keys() == {last} and row in [cells[:3] for cells in found[last]]


def test_a_reference_that_chooses_otherwise_is_no_accuser() -> None:
    config = config_like("page=1 lru pages=20 groups", component_request_target)
    ops = tuple(draw(1, 80, table(capabilities_of(component_request_target.make(config)))))
    found = beside(*played(component_request_target, Item(kind="schedule", config=config, schedule=ops)))
    last = found[max(found)]
    assert last.table is not None
    assert "chose otherwise" in last.table["name"]
    assert [step for step, one in found.items() if one.differs or rows_of(one)] == []


def said_beside(name: str) -> dict[int, str]:
    """By step what stands above the comparison."""
    found = published(f"sglang-0.5.13.post1{name}.jsonl").beside or {}
    return {step: one.table["name"] for step, one in found.items() if one.table is not None}


def test_where_nothing_was_looked_at_nothing_is_said_to_be_the_same() -> None:
    said = said_beside("/MISUSE-03-d2410823")
    assert said[1] == ALIKE
    assert {said[step] for step in range(3, 33)} == {
        "Reference and cache answered the same; what they hold was not looked at; they have differed since step 2"
    }
    assert ALIKE not in said_beside("-file/STORE-15-c87cba58").values(), "nobody can look into a store"


def test_what_the_caller_does_by_itself_parts_the_two_where_it_does() -> None:
    play = published("sglang-0.5.13.post1-host-pool/MISUSE-05-51b852cd.jsonl")
    found = {step: rows_of(one) for step, one in (play.beside or {}).items()}
    assert min(step for step, rows in found.items() if rows) == 3, "the question before it changes nothing"
    assert found[3] == [["free pages of the host", "2…31", "-1 (-1 more than once)"]]


def test_how_ranks_reduce_is_not_said_to_be_as_in_the_reference() -> None:
    play = published("sglang-0.5.13.post1-ranks/RANKS-07-1e3beb14.jsonl")
    answers = [one.answer for step, one in (play.beside or {}).items() if step >= 3]
    assert answers == [DECIDES] * 4


def test_a_reference_that_chose_otherwise_says_what_and_is_gone_from_then_on() -> None:
    play = published("sglang-0.5.13.post1-file/STORE-11-5bac0eae.jsonl")
    found = play.beside or {}
    assert (found[2].answer, found[2].differs) == ("0: to answer otherwise breaks no rule by itself", False)
    assert "at step 2 it chose otherwise" in said_beside("-file/STORE-11-5bac0eae")[3]
    steps = [{key: one for key, one in step.items() if key != "expected"} for step in play.steps]
    assert ["expected" in step for step in filled(dict(play.header), steps)] == [False] * 3, "not on the tape"


def test_of_a_play_that_is_too_long_to_be_judged_again_it_is_said_that_there_is_no_reference() -> None:
    header, steps = long_play(MOST_STEPS + 1)
    found = beside(header, steps)
    assert {one.table["name"] for one in found.values() if one.table} == {TOO_LONG} and len(found) == len(steps)
    assert "4,000 steps" in TOO_LONG


def test_a_page_that_is_nowhere_is_told_beside() -> None:
    play = published("sglang-0.5.13.post1-hicache/POOL-12-40675ec6.jsonl")
    found = {step: rows_of(one) for step, one in (play.beside or {}).items() if rows_of(one)}
    assert found.keys() == {29} and ["pages of the host with no home", "none", "5, 6, 7"] in found[29]


def scenes_of(name: str) -> list[Scene]:
    play = published(name)
    return list(scenes(play.steps, [page.family_of(play.header)], play.beside))


def squares_of(scene: Scene) -> dict[int, tuple[str, str]]:
    return {label: (kind, who) for label, kind, who in scene["pools"][-1]["squares"]}


def test_a_page_that_is_handed_out_twice_is_red_with_both_who_have_it() -> None:
    found = scenes_of("sglang-0.5.13.post1/MISUSE-03-d2410823.jsonl")
    last = squares_of(found[35])
    assert last[1] == ("two", "caller, steps 33 + 35") and last[2] == ("two", "free + caller, step 34")
    assert {kind for page, (kind, _) in last.items() if page > 2} == {"caller"}
    assert found[20]["pools"][0]["name"] == "Device pool: what is free or cached, last seen after step 2"


def test_each_step_of_a_call_says_what_it_asks_and_what_was_answered() -> None:
    found = scenes_of("sglang-0.5.13.post1/MISUSE-03-d2410823.jsonl")
    assert [(one["n"], one["whole"]) for one in found if one["whole"]] == [(3, "alloc(1) until it is refused → … [1]")]
    assert [found[at]["text"] for at in (1, 3, 33, 35)] == [
        f"alloc({n}) → {to}" for n, to in ((2, [1, 2]), (1, [3]), (1, [1]), (1, [1]))
    ]
    assert [found[at]["call"] for at in (0, 1, 2, 3, 35)] == [0, 1, 2, 3, 3]
    found = scenes_of("sglang-0.5.13.post1-host-pool/MISUSE-05-51b852cd.jsonl")
    assert found[2]["whole"] == "overwrite the returned sequence in place"
    assert found[2]["text"] == "does the returned sequence share the memory of the free list? → yes"
    assert found[3]["text"] == "overwrite the returned sequence, to the end of the memory that it lies in"
    assert squares_of(found[3])[-1] == ("stray", "free ×30")


def test_a_call_that_only_lends_something_is_counted_as_findings_count_it() -> None:
    play = published("sglang-0.5.13.post1-hicache/POOL-12-40675ec6.jsonl")
    found = scenes_of("sglang-0.5.13.post1-hicache/POOL-12-40675ec6.jsonl")
    assert found[-1]["call"] == sum("text" in step for step in play.steps) == 18
    assert found[1]["text"] == "attach(the suite's storage)"


def test_ticks_that_findings_print_as_one_take_no_text_of_the_call_behind_them() -> None:
    found = scenes_of("sglang-0.5.13.post1-hicache/POOL-12-40675ec6.jsonl")
    assert [(one["text"], one["whole"], one["begins"]) for one in found[20:24]] == [
        ("tick()", "tick() ×2", True),
        ("tick()", "", False),
        ("evict(96) → 0", "", True),
        ("evict_host(128)", "", True),
    ]


@pytest.mark.parametrize("count", [2, 3])
def test_so_many_ticks_are_one_call(count: int) -> None:
    def tick(**more: Any) -> dict[str, Any]:
        return {"call": "tick", "args": [], "answer": None, **more}

    ticks = [tick(text=f"tick() ×{count}"), tick(text="tick()"), *[tick() for _ in range(count - 2)]]
    found = drawn(({"config": {}}, [*ticks, tick()]))[1:]
    assert [one["call"] for one in found] == [1] * count + [2]
    found = drawn(
        ({"config": {}}, [tick(text="tick() ×9"), {"call": "reset", "args": [], "answer": None, "text": "reset()"}])
    )[1:]
    assert [(one["text"], one["call"]) for one in found] == [("tick() ×9", 1), ("reset()", 2)]


def test_what_events_told_wrongly_is_told_in_words() -> None:
    found = load(site_files.FOLDER / "vllm-0.33.0-flat/EVENT-07-a09e3240.jsonl").finding
    event = "stored device: page 17937112594885229482 = 1, below 12466796630403248834"
    words = f"stored below a page that is on no tier: {event}"
    assert f"<dt>told orphans</dt><dd>{words} " in page.finding_of(0, found, "")
    (verdict,) = scenes_of("vllm-0.33.0-flat/EVENT-07-a09e3240.jsonl")[-1]["verdicts"]
    assert verdict["seen"] == {"told_orphans": words}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("('a', \"b's\")", "a; b's"),
        ("('a',)", "a"),
        ("()", "()"),
        ("(1, 2)", "(1, 2)"),
        (
            "x: Event(what='removed', tier='host', page=7, parent=None, units=(), namespace='t')",
            "x: removed host: page 7 @t",
        ),
        (
            "Event(what='stored', tier='device', page=7, parent=3, units=((1, 2), (2, 3)), namespace=None)",
            "stored device: page 7 = 1·2 2·3, below 3",
        ),
        ("Event(what='odd'", "Event(what='odd'"),
    ],
)
def test_a_fact_is_told_in_words(told: str, words: str) -> None:
    assert worded(told) == words


def test_a_job_that_fails_is_told_where_it_does_and_what_it_held_is_of_no_job() -> None:
    found = scenes_of("sglang-0.5.13.post1-hicache/POOL-12-40675ec6.jsonl")
    assert [[state for _, _, state, _ in found[at]["jobs"]] for at in (25, 26, 27, 28)] == [
        ["ended", "under way"],
        ["under way"],
        ["failed"],
        [],
    ]
    assert squares_of(found[26])[4] == ("flight", "in flight") and squares_of(found[28])[4] == (
        "flight",
        "of ended work",
    )


def test_the_head_of_a_finding_blames_the_misuse_and_not_what_asks_for_its_effect() -> None:
    play = published("sglang-0.5.13.post1/MISUSE-03-d2410823.jsonl")
    stream = io.StringIO()
    page.write(stream, [play])
    text = stream.getvalue()
    assert "<h2>Step 35 (call 3) shows a broken <b>MISUSE-03</b>" in text
    assert '<p class="fault">Seen: available after 34; later sound False. Allowed: at most 32 slots available' in text
    assert "differ since step 2: <code>free([1, 2, 1, 2])" in text
    assert '34 <span class="means">slots that the pool says it could hand out, after the misuse</span>' in text
    assert '<p class="about">page=1 lru · litmus misuse/a-page-named-twice-in-one-free' in text
    found = load(site_files.FOLDER / "sglang-0.5.13.post1-hicache/POOL-12-40675ec6.jsonl").finding
    assert "<dt>seen empty</dt><dd>cached homes, owned after, waiting after</dd>" in page.finding_of(0, found, "")
    assert "<h2>The last call breaks <b>POOL-12</b>" in page.finding_of(0, {"rules": ["POOL-12"]}, "")


def test_ranks_that_reduce_apart_are_told_side_by_side() -> None:
    *rest, last = scenes_of("sglang-0.5.13.post1-ranks/RANKS-07-1e3beb14.jsonl")
    (table,) = [one for one in last["tables"] if one["leads"]]
    assert [(row.cells[1:], row.odd) for row in table["rows"]] == [
        (["●", "●", "●", "●"], False),
        (["●", "●", "–", "–"], True),
        (["–", "–", "●", "●"], True),
    ]
    assert last["answer"] == "min of drain_storage_control_queues over ranks 2, 3; decides nothing"
    assert not any(row.odd for one in rest for some in one["tables"] if some["leads"] for row in some["rows"])


@pytest.mark.parametrize("label", ["ranks timeout", "ranks best_effort"])
def test_ranks_that_reduce_as_they_must_are_not_red(label: str) -> None:
    found = [
        one
        for scene in drawn(random_play(specimen, config_like(label), 120))
        for one in scene["tables"]
        if one["leads"]
    ]
    assert found and not any(row.odd for one in found for row in one["rows"])


def test_of_a_store_it_is_told_what_it_counted_and_that_it_raised() -> None:
    found = scenes_of("sglang-0.5.13.post1-file/STORE-11-5bac0eae.jsonl")
    rows = [one["rows"][0].cells for scene in found[1:] for one in scene["tables"] if one["name"] == "Keys"]
    assert rows[0] == ["k0", "v1, writer killed, step 1", "", "–", "–"]
    assert rows[2] == ["k0", "v1, writer killed, step 1", "", "yes, step 2", "raised, step 3"]
    shown = [row.cells for scene in found for one in scene["tables"] for row in one["rows"]]
    told = json.dumps([shown, *([one["text"], one["answer"]] for one in found)])
    assert "kvlitmus-scratch" not in told and "00000000" not in told


def test_what_the_reference_answered_is_on_the_tape_of_a_finding() -> None:
    header, steps = finding(*LEAK)
    assert "expected" in steps[-1]
    plain = [{name: one for name, one in step.items() if name != "expected"} for step in steps]
    assert filled(header, plain) == steps
    assert filled(header, steps) == steps, "it is written anew"


def test_slots_of_a_composed_request_are_told_by_its_name_and_steps_have_one_numbering() -> None:
    item = Item(kind="random", config=Config(page_size=4), seed=0, ops=400)
    result = engine.run_item(BareTarget(Forgets), item, Options())
    found = next(one for one in result.findings if any("begin(" in call for call in one.calls[:-1]))
    tape: Any = tape_of(found, target="a cache", depth=3, force_misuse=False, version="test", fill=filled)
    header, steps = tape
    begins = [at for at, step in enumerate(steps) if "text" in step]
    assert len(begins) == len(found.calls) < len(steps) - 1, "a request takes several steps"
    assert in_steps(found) == f" (step {len(steps) - 1} of its page)"
    every = drawn((header, steps))
    who = {who for one in every for pool in one["pools"] for _, kind, who in pool["squares"] if kind == "request"}
    assert who and all(re.fullmatch(r"request \d+( \+ .*)?", one) for one in who)
    allocated = next(at for at, step in enumerate(steps) if step.get("call") == "alloc" and "text" not in step)
    pages = {slot // 4 for slot in steps[allocated]["answer"]}
    (squares,) = [{label: (kind, who) for label, kind, who in pool["squares"]} for pool in every[allocated]["pools"]]
    assert {squares[one][0] for one in pages} == {"request"}
    header["finding"]["parted"] = [f"call {len(begins) - 1}: what is locked"]
    text = written((header, steps))
    assert f"<dd>step {begins[-1] - 1}: what is locked</dd>" in text
    assert re.findall(r'<li value="(\d+)">', text) == [str(at) for at in begins]
    assert not re.search(r"\bcall \d", "".join(json.dumps({**one, "whole": ""}) for one in every))
