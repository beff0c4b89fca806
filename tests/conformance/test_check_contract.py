"""Recorded traces: what the engine must not do, what is reported, and the logger of the docs."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.history import families
from kvlitmus.conformance.history.checker import TraceChecker
from kvlitmus.conformance.history.reader import Reader
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report.form import rows
from kvlitmus.conformance.specimen import cache as specimen
from kvlitmus.conformance.tape.lines import TapeReader
from kvlitmus.spec.words.units import Key
from tests.conformance.support.recorder import call, check, key, logging, record, schedule, written
from tests.conformance.support.schemas import fits

Capture = pytest.CaptureFixture[str]

PAGE = [4, 5, 6, 7]
ALLOC = call("alloc", 4, answer=PAGE)
FREE = call("free", PAGE)
STORE = call("insert", key(1, 2, 3, 4), PAGE, answer={"already": 0, "to_free": None})
FOUND = call("match", key(1, 2, 3, 4), answer={"length": 4, "slots": PAGE, "handle": "h1"})
LOCK = call("lock", "h1", answer="r1")
BEGIN = call("begin", "a", key(1, 2, 3, 4), answer={"row": PAGE, "cached": 0})

BREACHES: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "freed twice": ([ALLOC, FREE, FREE], "foreign free", "page 1 isn't the caller's to free: it is free"),
    "named twice": ([ALLOC, call("free", [4, 4])], "double free", "slot 4 is named twice"),
    "twice in a group": (
        [ALLOC, call("free_group_begin"), FREE, FREE, call("free_group_end")],
        "double free",
        "page 1 is freed twice in one group",
    ),
    "the tree's": ([ALLOC, STORE, FREE], "foreign free", "it is the tree's"),
    "a request's": ([BEGIN, FREE], "foreign free", "it is request a's"),
    "beyond the pool": ([call("free", [400])], "foreign free", "no page of the pool"),
    "odd size": ([call("alloc", 3, answer=[4, 5, 6])], "size", "3 slots are no whole pages of 4"),
    "stale page": ([ALLOC, FREE, call("alloc_extend", [2], [3], [5], answer=[6])], "foreign page", "page 1"),
    "shorter": ([ALLOC, call("alloc_extend", [2], [1], [5], answer=[])], "lengths", "can't be extended to 1"),
    "short value": ([ALLOC, call("insert", key(*range(8)), PAGE, answer={"already": 0})], "short value", "4 slots"),
    "not in order": (
        [ALLOC, call("insert", key(1, 2, 3, 4), [4, 6, 5, 7], answer={"already": 0})],
        "broken page",
        "not one whole page",
    ),
    "foreign value": ([ALLOC, FREE, STORE], "foreign page", "page 1 isn't the caller's to insert"),
    "no such handle": ([LOCK], "unknown handle", "'h1'"),
    "gone": (
        [ALLOC, STORE, FOUND, call("evict", 32, answer=4), call("match", key(1, 2, 3, 4), answer={"length": 0}), LOCK],
        "stale handle",
        "the handle is of line 4, and the tree changed in line 5: what it names may be gone",
    ),
    "unlocked twice": (
        [ALLOC, STORE, FOUND, LOCK, call("unlock", "r1"), call("unlock", "r1")],
        "unlock twice",
        "receipt 'r1' was given back in line 6 already",
    ),
    "not locked": ([call("unlock", "r9")], "unknown receipt", "'r9'"),
    "not running": ([call("grow", "a", [1], answer=[8])], "no such request", "'a' isn't running"),
    "ended twice": (
        [BEGIN, call("end", "a", kwargs={"keep": False}), call("end", "a", kwargs={"keep": False})],
        "no such request",
        "'a' isn't running",
    ),
    "computed nothing": (
        [BEGIN, call("publish_upto", "a", 99, kwargs={"chunked": True}, answer={"row": [0], "cached": 0})],
        "computed part",
        "99 units of request 'a'",
    ),
    "ended behind its end": ([BEGIN, call("end_upto", "a", 99)], "computed part", "99 units of request 'a'"),
    "begun twice": ([BEGIN, BEGIN], "request twice", "'a' is running already"),
    "no group": ([call("free_group_end")], "free group", "never began"),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_by_the_engine_is_told_with_its_line_and_blames_no_rule(
    name: str, tmp_path: Path, capsys: Capture
) -> None:
    calls, kind, text = BREACHES[name]
    later = call("evict", 4, answer=99)  # nothing is judged after a breach
    path = written(tmp_path / "t.jsonl", *calls, later)
    outcome = check(path).outcome
    (one,) = outcome.misuse
    at = 1 + max(at for at, one in enumerate(calls, 1) if one["call"] != "free_group_end" or len(calls) == 1)
    assert (one.line, one.kind, one.harmless) == (at, kind, False)
    assert text in one.text
    assert outcome.findings == [] and outcome.error == ""
    assert main(["check", str(path), "--color", "never"]) == 1
    shown = capsys.readouterr().out
    assert f"the engine broke the contract: {kind}" in shown
    assert f"line {at}" in shown and "exit 1: the recorded engine broke the contract" in shown
    assert "1 violated" not in shown


def test_a_handle_used_after_a_change_that_left_its_place_alone_is_noted_and_goes_on(tmp_path: Path) -> None:
    other = (
        call("alloc", 4, answer=[8, 9, 10, 11]),
        call("insert", key(9, 9, 9, 9), [8, 9, 10, 11], answer={"already": 0}),
    )
    calls = [ALLOC, STORE, FOUND, *other, LOCK, call("unlock", "r1")]
    path = written(tmp_path / "t.jsonl", *calls)
    outcome = check(path).outcome
    assert [(one.line, one.kind, one.harmless) for one in outcome.misuse] == [(7, "stale handle", True)]
    assert not outcome.stopped and main(["check", str(path)]) == 0


@pytest.mark.parametrize(("misuse", "raised", "goes_on"), [
    ("reject", True, True), ("reject", False, False), ("ignore", False, True), ("ignore", True, False),
    ("undefined", True, False),
])  # fmt: skip
def test_what_the_profile_says_of_misuse_decides_whether_judging_goes_on(
    misuse: str, raised: bool, goes_on: bool, tmp_path: Path
) -> None:
    again = {"call": "free", "args": [PAGE], **({"raised": "ValueError: no"} if raised else {"answer": None})}
    bad = call("alloc", 4, answer=[4, 5, 6])
    path = written(tmp_path / "t.jsonl", ALLOC, FREE, again, bad, profile={"misuse": misuse})
    outcome = check(path).outcome
    assert len(outcome.misuse) == 1
    assert [one.finding.rules for one in outcome.findings] == ([["POOL-01", "POOL-02"]] if goes_on else [])


# -- what is found ---------------------------------------------------------------------------------

BROKEN = (
    ALLOC,
    call("alloc", 4, answer=[4, 5, 6, 7]),  # the page again: POOL-04, POOL-15
    call("alloc", 8, answer=[8, 9, 10, 11]),  # too few: POOL-01
    call("alloc", 4, answer=[0, 1, 2, 3]),  # the reserved page: POOL-06
    {"call": "free", "args": [[8, 9, 10, 11]], "raised": "KeyError: 2"},
    call("alloc", 4, answer=[400, 401, 402, 403]),
)


def test_the_first_violation_ends_it_and_keep_going_goes_on_with_the_other_rules(
    tmp_path: Path, capsys: Capture
) -> None:
    path = written(tmp_path / "t.jsonl", *BROKEN)
    assert main(["check", str(path), "--color", "never"]) == 1
    shown = capsys.readouterr().out
    assert "▶ line 3: alloc(4) → [4…7]" in shown and f"foundin{path}:3" in "".join(shown.split())
    assert "--keep-going judges on by the others" in shown and "blocked" in shown
    outcome = check(path, keep_going=True).outcome
    found = [(one.line, one.finding.rules) for one in outcome.findings]
    assert found == [
        (3, ["POOL-04", "POOL-15"]),
        (4, ["POOL-01"]),
        (5, ["POOL-06"]),
        (6, ["PORT-01"]),
    ]
    assert outcome.findings[-1].finding.detail == "the call raised KeyError: 2"
    assert "what the call left behind isn't known" in outcome.stopped


def test_only_some_rules_and_no_deeper_than_asked(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", *BROKEN)
    assert main(["check", str(path), "--rule", "POOL-06"]) == 1
    assert main(["check", str(path), "--pack", "tree"]) == 4, "a call that raises ends it, whatever was asked for"
    config = Config(page_size=4)
    record(specimen.target, config, schedule(specimen.target, config, 1, 60), tmp_path / "r.jsonl")
    assert [check(tmp_path / "r.jsonl", depth=depth).checker.depth for depth in (0, 1, 2, 3)] == [0, 1, 2, 3]


def test_the_json_report_has_the_form_of_every_report(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path / "t.jsonl", *BROKEN, cache="mine 1.0")
    assert main(["check", str(path), "--json", "--keep-going", "--window", "2"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert fits(data, "report") == []
    assert [one["line"] for one in data["trace"]["findings"]] == [3, 4, 5, 6]
    assert data["trace"]["findings"][3]["lines"] == [5, 6] and data["trace"]["findings"][3]["before"] == 3
    assert len(data["findings"][3]["calls"]) == 2
    verdicts = {one["id"]: (one["verdict"], one["reason"]) for one in rows(data)}
    assert verdicts["POOL-02"] == ("passed", "")
    assert verdicts["POOL-06"][0] == "violated"
    assert verdicts["TREE-03"] == ("not_applicable", "the trace doesn't record what was written")
    assert verdicts["PORT-04"][0] == verdicts["MISUSE-01"][0] == verdicts["EVICT-07"][0] == "not_applicable"
    path = written(tmp_path / "u.jsonl", ALLOC, FREE, FREE)
    assert main(["check", str(path), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert fits(data, "report") == []
    assert data["exit_meaning"] == "the recorded engine broke the contract, so judging ended early"
    assert data["trace"]["misuse"][0]["line"] == 4


def test_a_cache_that_would_have_ended_the_process_or_answers_nonsense(tmp_path: Path) -> None:
    ends = {"call": "alloc", "args": [4], "raised": "SystemExit: 3"}
    for odd, rule in (
        (ends, "PORT-02"),
        (call("alloc", 4, answer={"slots": 4}), "PORT-03"),
        (call("alloc", 4, answer=[4.5]), "PORT-03"),
        (call("match", key(1), answer={"size": 4}), "PORT-03"),
        (call("evict", 4, answer=None), "PORT-03"),
        ({**ALLOC, "available": {"raised": "KeyError: 7"}}, "PORT-01"),
    ):
        more = {"available": 32} if "available" in odd else {}
        (one,) = check(written(tmp_path / "t.jsonl", odd, **more)).outcome.findings
        assert one.finding.rules == [rule], odd


# -- length ----------------------------------------------------------------------------------------


def test_what_is_remembered_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    calls = [ALLOC, STORE, FOUND, LOCK, call("unlock", "r1"), call("evict", 4, answer=4)] * 400
    with TapeReader(str(written(tmp_path / "t.jsonl", *calls))) as tape:
        reader = Reader(tape)
        trace_checker = TraceChecker(reader)
        most = 0
        for _ in trace_checker.run(reader):
            most = max(
                most,
                len(trace_checker.checker.history),
                len(trace_checker.checker.lines),
                len(trace_checker.places.handles),
            )
    assert trace_checker.outcome.findings == [] and trace_checker.checker.steps == 2400
    assert most <= 3 * trace_checker.window


def test_progress_is_told_on_stderr(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(0, 100_000, 3))
    monkeypatch.setattr("kvlitmus.conformance.cli.commands.check.time.monotonic", lambda: float(next(moments)))
    assert main(["check", str(written(tmp_path / "t.jsonl", *[ALLOC, FREE] * 1000))]) == 0
    captured = capsys.readouterr()
    assert "512 lines (" in captured.err and "lines/s" in captured.err and "lines/s" not in captured.out


def test_an_interrupt_leaves_what_was_judged(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(families.ACTIONS, "evict", interrupted)
    path = written(tmp_path / "t.jsonl", ALLOC, FREE, call("evict", 4, answer=0))
    assert main(["check", str(path)]) == 130
    assert "interrupted after line 3" in capsys.readouterr().out


# -- the logger of the docs ------------------------------------------------------------------------


class Odd:
    """A cache that calls itself, raises, and has what is no method."""

    profile = 7

    def alloc(self, n: int) -> list[int]:
        if n > 8:
            raise MemoryError("no more")
        return self.alloc_pages(n)

    def alloc_pages(self, n: int) -> list[int]:
        return list(range(4, 4 + n))

    def available(self) -> int:
        raise KeyError("page 7")


def test_the_logger_records_what_raises_and_lets_it_through(tmp_path: Path) -> None:
    made = logging.TraceLogger(Odd(), str(tmp_path / "t.jsonl"), {"config": {}, "ports": []})
    assert made.profile == 7 and made.alloc(4) == [4, 5, 6, 7]
    with pytest.raises(MemoryError):
        made.alloc(9)
    with pytest.raises(AttributeError):
        made.free([4])
    made._file.close()
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [line.get("call") for line in lines] == [None, None, "alloc", "alloc"]
    broken = {"available": {"raised": "KeyError: 'page 7'"}}
    assert lines[1] == {"looks": broken}
    assert lines[2]["answer"] == [4, 5, 6, 7] and lines[2]["looks"] == broken
    assert lines[3]["raised"] == "MemoryError: no more" and "answer" not in lines[3]


def test_the_logger_keeps_the_calls_of_several_threads_apart_and_in_order(tmp_path: Path) -> None:
    cache = specimen.target.make(Config(page_size=4, pages=64))
    header = {"config": {"page_size": 4, "pages": 64}, "ports": ["pool", "tree", "locks", "evict"]}
    made = logging.TraceLogger(cache, str(tmp_path / "t.jsonl"), header)

    def work(number: int) -> None:
        for _ in range(50):
            slots = made.alloc(8)
            made.free(slots)
            made.match(Key(None, (number,) * 8))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made._file.close()
    trace_checker = check(tmp_path / "t.jsonl")
    assert trace_checker.checker.steps == 600 and trace_checker.checker.depth == 1
    assert (trace_checker.outcome.findings, trace_checker.outcome.misuse, trace_checker.outcome.stopped) == ([], [], "")
