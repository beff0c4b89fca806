"""Recorded traces: lines that are none, headers, traces that break off."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from tests.conformance.support.recorder import HEADER, call, key, written

Capture = pytest.CaptureFixture[str]

ALLOC = call("alloc", 4, answer=[4, 5, 6, 7])
FREE = call("free", [4, 5, 6, 7])


# -- lines that are none ---------------------------------------------------------------------------

WRONG: list[tuple[object, str]] = [
    ("", "expected a JSON object, got a blank line"),
    ("{", "expected a JSON object, got '{'"),
    ('{"call": "alloc", "args": [NaN], "answer": null}', "NaN is no JSON"),
    ("[" * 100_000, "expected a JSON object"),
    ([1], "expected a JSON object, got [1]"),
    ({"args": []}, "expected a call such as"),
    ({"call": "alloc", "args": [4]}, "expected either an answer or what was raised, got neither"),
    ({"call": "alloc", "args": [4], "answer": None, "raised": "E: x"}, "got both"),
    ({"call": "alloc", "args": [4], "raised": 7}, "expected raised to be a text"),
    ({"call": "alloc", "args": 4, "answer": None}, "expected args to be a list"),
    (call("alloc", "4"), "expected the n of alloc to be a whole number, got '4'"),
    (call("alloc", True), "expected the n of alloc to be a whole number, got True"),
    (call("alloc", -4), "expected the n of alloc to be a whole number from 0 on, got -4"),
    (call("alloc", 1 << 62), "expected the n of alloc to be a number of at most 62 bits"),
    (call("free", [4, 1 << 62]), "expected the slots of free to be a number of at most 62 bits"),
    (call("alloc"), "expected alloc(n), got"),
    (call("alloc", 4, 5), "expected alloc(n), got"),
    (call("alloc", 4, kwargs={"n": 4}), "expected alloc(n), got"),
    (call("match", [1, 2]), "expected the key of match to be an object (Key) with tokens"),
    (call("match", {"tokens": [1, "2"]}), "expected the key of match to be a whole number, got '2'"),
    (call("lock", None), "expected the handle of lock to be a name"),
    (call("lock", {"@": 9}), "expected the handle of lock to be what a step before gave"),
    ({**ALLOC, "answer": {"$": "dance"}}, "expected the answer of alloc to be a tagged value"),
    ({**ALLOC, "looks": {"weather": 1}}, "expected looks among available"),
    (
        {**ALLOC, "looks": {"available": {"~": []}}},
        "expected the look at available to be a value, where this look was not",
    ),
    ({"kind": "kvlitmus tape", "format": 1, "config": {"page_size": 4, "pages": 8}}, "expected a tape of one play"),
    (call("begin", {}, key(1)), "expected the rid of begin to be a name"),
    ({**ALLOC, "answr": []}, "'answr' too"),
    (call("teleport", 4), "expected one of the calls alloc, free"),
]


@pytest.mark.parametrize(("line", "text"), WRONG, ids=range(len(WRONG)))
def test_a_line_that_is_no_call_is_named_with_what_was_expected(
    line: object, text: str, tmp_path: Path, capsys: Capture
) -> None:
    path = written(tmp_path / "t.jsonl", ALLOC, FREE)
    with path.open("a") as file:
        file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    assert main(["check", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"kvlitmus: {path}, line 4: expected ") and error.count("\n") == 1
    assert text in error and len(error) < 700


HEADERS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "kvlitmus failure"}, 'a header with "kind": "kvlitmus tape"'),
    ({"format": 2}, "expected format 1"),
    ({"config": {"pages": 3}}, "a config with page_size and pages"),
    ({"config": {"page_size": 4, "pages": 0}}, "config.pages must be a whole number from 1 to 1048576"),
    ({"config": {"page_size": 4, "pages": 4, "colour": 1}}, "no field 'colour'"),
    ({"ports": ["pool", "door"]}, "expected ports among pool"),
    ({"profile": {"misuse": "shrug"}}, "profile.misuse must be 'undefined', 'reject' or 'ignore' (got 'shrug')"),
    ({"profile": {"reserved": True}}, "profile.reserved must be a whole number from 0 to 1 (got True)"),
    ({"profile": {"commit": "never"}}, "profile.commit must be 'poll' or 'tick' (got 'never')"),
    ({"profile": {"timeout": [1, "2", 3]}}, "profile.timeout must be 3 numbers of seconds"),
    ({"profile": {"taste": 1}}, "a profile with fields among"),
    ({"contents": "secret"}, "contents to be one of"),
    ({"sizes": {"evictable": 0, "protected": 0}}, "the port 'counters' among the ports"),
    ({"available": 7}, "begins with a fresh cache: 32 slots available, got 7"),
    ({"available": "all"}, "what a fresh cache shows"),
    ({"surprise": 1}, "'surprise' too"),
]


@pytest.mark.parametrize(("header", "text"), HEADERS, ids=range(len(HEADERS)))
def test_a_wrong_header_is_told(header: dict[str, Any], text: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["check", str(written(tmp_path / "t.jsonl", ALLOC, **header))]) == 2
    error = capsys.readouterr().err
    line = 2 if header.keys() & {"available", "sizes"} else 1
    assert f", line {line}: expected " in error and text in error and error.count("\n") == 1


def test_a_file_that_is_none(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").write_text("")
    for name in ("nowhere.jsonl", "empty", "."):
        assert main(["check", str(tmp_path / name)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3 and "No such file" in errors[0] and "line 1: expected the header" in errors[1]


def test_from_a_missing_look_on_only_what_is_certain_is_judged(tmp_path: Path, capsys: Capture) -> None:
    calls = [{**ALLOC, "available": 28}, FREE, {**ALLOC, "available": 28}]
    assert main(["check", str(written(tmp_path / "t.jsonl", *calls, available=32))]) == 4
    shown = capsys.readouterr().out
    assert "line 4: nobody looked at available after it" in shown
    assert "2 of 3 calls judged, 1 of them by what is certain" in shown
    twice = {**call("alloc", 8, answer=[8, 9, 10, 11, 8, 9, 10, 11]), "available": 20}
    assert main(["check", str(written(tmp_path / "t.jsonl", *calls, twice, available=32))]) == 1
    assert "POOL-03" in capsys.readouterr().out


def test_unknown_calls_and_ports_are_skipped_and_counted_where_that_is_asked(tmp_path: Path, capsys: Capture) -> None:
    odd = call("teleport", 4), call("teleport", 4), call("warp")
    path = written(tmp_path / "t.jsonl", ALLOC, *odd, FREE, ports=[*HEADER["ports"], "portal"])
    assert main(["check", str(path)]) == 2
    assert main(["check", str(path), "--ignore-unknown"]) == 0
    shown = capsys.readouterr().out
    assert "2 calls of 'teleport' not judged" in shown and "1 call of 'warp' not judged" in shown
    assert "the ports portal" in shown


def test_a_trace_that_contradicts_itself_is_no_verdict_on_the_cache(tmp_path: Path, capsys: Capture) -> None:
    seen = {**ALLOC, "available": 28}
    path = written(tmp_path / "t.jsonl", seen, call("available", answer=24), available=32)
    assert main(["check", str(path)]) == 3
    assert "line 4: available() answers 24, and after the call before it was 28" in capsys.readouterr().out


# -- traces that break off -------------------------------------------------------------------------


def test_a_torn_last_line_is_judged_up_to_there(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path / "t.jsonl", ALLOC, FREE, ALLOC)
    whole = path.read_bytes()
    for cut in (1, 5, 30):
        path.write_bytes(whole[:-cut])
        code = main(["check", str(path)])
        shown = capsys.readouterr().out
        if cut == 1:
            assert code == 0, "a last line that is complete but for its end is a line"
        else:
            assert code == 4
            assert "the trace is torn: line 4: it breaks off after" in shown and "judged up to line 3" in shown
    path.write_bytes(written(tmp_path / "b.jsonl", ALLOC, call("alloc", 4, answer=[8, 9])).read_bytes() + b'{"ca')
    assert main(["check", str(path)]) == 1, "a rule that was broken before outranks that"


def test_compressed_traces_whole_torn_and_spoilt(tmp_path: Path, capsys: Capture, monkeypatch: Any) -> None:
    plain = written(tmp_path / "t.jsonl", *[ALLOC, FREE] * 2000).read_bytes()
    packed = gzip.compress(plain)
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(packed)
    assert main(["check", str(path)]) == 0
    assert "4,000 calls judged, up to line 4,001" in capsys.readouterr().out
    path.write_bytes(packed[: len(packed) // 2])
    assert main(["check", str(path)]) == 4
    assert "the compressed file ends before its end mark" in capsys.readouterr().out
    path.write_bytes(packed[:100] + b"\xff" * 40 + packed[140:])
    assert main(["check", str(path)]) == 2
    assert "expected a file that can be read" in capsys.readouterr().err

    class Pipe:
        buffer = io.BufferedReader(io.BytesIO(plain))

    monkeypatch.setattr("sys.stdin", Pipe)
    assert main(["check", "-"]) == 0


def test_a_header_alone_is_no_verdict(tmp_path: Path, capsys: Capture) -> None:
    assert main(["check", str(written(tmp_path / "t.jsonl"))]) == 4
    assert "no call that could be judged" in capsys.readouterr().out
