"""Malformed traces: each error names the file, the line, what was expected and what was there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trace import mooncake
from benchmarks.trace.mooncake import Request, TraceError, load_trace, read_trace
from benchmarks.trace.replay import check_capacity
from tests.conformance.test_trace import SMALL

GOOD: list[dict[str, Any]] = [
    {"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2]},
    {"timestamp": 0, "input_length": 1100, "output_length": 0, "hash_ids": [1, 2, 3]},
    {"timestamp": 7, "input_length": 512, "output_length": 9, "hash_ids": [1]},
    {"timestamp": 9, "input_length": 600, "output_length": 9, "hash_ids": [1, 4]},
]
"""A trace in which each line may be spoilt."""


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(row) for row in rows]


def write(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def error_of(file: Path) -> TraceError:
    with pytest.raises(TraceError) as caught:
        load_trace(file)
    return caught.value


def changed(line: int, **values: object) -> str:
    rows = [dict(row) for row in GOOD]
    rows[line - 1].update(values)
    return "\n".join(lines_of(rows)) + "\n"


def replaced(line: int, text: str) -> str:
    lines = lines_of(GOOD)
    lines[line - 1] = text
    return "\n".join(lines) + "\n"


def without(line: int, key: str) -> str:
    rows = [dict(row) for row in GOOD]
    del rows[line - 1][key]
    return "\n".join(lines_of(rows)) + "\n"


def test_a_good_trace_is_read_as_it_is(tmp_path: Path) -> None:
    text = changed(2, model="extra keys are allowed", tags=[1, {"a": None}])
    expected = (
        Request(1, 0, 1024, (1, 2)),
        Request(2, 0, 1100, (1, 2, 3)),
        Request(3, 7, 512, (1,)),
        Request(4, 9, 600, (1, 4)),
    )
    assert load_trace(write(tmp_path, text)).requests == expected
    assert load_trace(write(tmp_path, text.rstrip("\n"))).requests == expected, "the last line need not end"
    assert load_trace(write(tmp_path, text.replace("\n", "\r\n"))).requests == expected
    assert [request.full for request in expected] == [2, 2, 1, 1]


def test_reading_is_lazy(tmp_path: Path) -> None:
    requests = read_trace(write(tmp_path, replaced(2, "nonsense")))
    assert next(requests).line == 1
    with pytest.raises(TraceError):
        next(requests)


SPOILT: dict[str, tuple[str, int, str, str]] = {
    "unsorted": (changed(4, timestamp=6), 4, "timestamp at least 7", "6"),
    "too few ids": (changed(2, hash_ids=[1, 2]), 2, "3 hash_ids for input_length 1100", "2"),
    "too many ids": (changed(3, hash_ids=[1, 2]), 3, "1 hash_ids for input_length 512", "2"),
    "two parents": (changed(4, hash_ids=[4, 1]), 4, "id 1 comes first at depth 0, as in line 1", "follows id 4"),
    "other parent": (
        changed(4, input_length=1600, hash_ids=[1, 8, 2, 9]),
        4,
        "id 2 follows id 1 at depth 1, as in line 1",
        "it follows id 8 at depth 2",
    ),
    "not first any more": (
        changed(4, input_length=500, hash_ids=[3]),
        4,
        "id 3 follows id 2 at depth 2",
        "comes first",
    ),
    "two lengths": (changed(4, input_length=1025, hash_ids=[1, 2, 3]), 4, "stand for 76 tokens, as in line 2", "1"),
    "id twice": (changed(4, hash_ids=[1, 1]), 4, "each id once", "id 1 twice"),
    "negative id": (changed(4, hash_ids=[1, -4]), 4, "hash_ids to be integers from 0", "-4"),
    "huge id": (changed(4, hash_ids=[1, 2**63]), 4, "to 2**63 - 1", str(2**63)),
    "truth as id": (changed(4, hash_ids=[1, True]), 4, "hash_ids to be integers", "True"),
    "fraction as id": (changed(4, hash_ids=[1, 4.0]), 4, "hash_ids to be integers", "4.0"),
    "ids no list": (changed(4, hash_ids="14"), 4, "hash_ids to be a list", "'14'"),
    "negative time": (changed(1, timestamp=-1), 1, "timestamp to be an integer from 0", "-1"),
    "fractional time": (changed(4, timestamp=9.5), 4, "timestamp to be an integer", "9.5"),
    "empty prompt": (changed(4, input_length=0, hash_ids=[]), 4, "input_length to be an integer from 1", "0"),
    "text as length": (changed(4, input_length="600"), 4, "input_length to be an integer", "'600'"),
    "huge length": (changed(4, input_length=10**30), 4, "input_length to be an integer", str(10**30)),
    "truth as length": (changed(4, output_length=True), 4, "output_length to be an integer", "True"),
    "negative output": (changed(2, output_length=-5), 2, "output_length to be an integer from 0", "-5"),
    "no time": (without(3, "timestamp"), 3, "the key 'timestamp'", "'hash_ids'"),
    "no length": (without(3, "input_length"), 3, "the key 'input_length'", "'hash_ids'"),
    "no output": (without(3, "output_length"), 3, "the key 'output_length'", "'hash_ids'"),
    "no ids": (without(3, "hash_ids"), 3, "the key 'hash_ids'", "'timestamp'"),
    "a list": (replaced(2, "[1, 2]"), 2, "a JSON object", "[1, 2]"),
    "no JSON": (replaced(2, "timestamp: 3"), 2, "a JSON object", "timestamp: 3"),
    "blank": (replaced(2, "  "), 2, "a request", "a blank line"),
    "two on a line": (replaced(2, '{"a": 1} {"b": 2}'), 2, "a JSON object", "Extra data"),
    "key twice": (replaced(2, '{"timestamp": 1, "timestamp": 2}'), 2, "a JSON object", "a key is given twice"),
    "no number": (replaced(2, '{"timestamp": NaN}'), 2, "a JSON object", "NaN is no JSON"),
    "deep": (replaced(2, "[" * 100_000), 2, "at most 64 opening brackets", "100000"),
    "many digits": (replaced(2, f'{{"timestamp": {"9" * 5000}}}'), 2, "a JSON object", "digits"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_line_is_named_with_what_is_wrong(name: str, tmp_path: Path) -> None:
    text, line, expected, got = SPOILT[name]
    file = write(tmp_path, text)
    error = error_of(file)
    assert (error.line, error.file) == (line, str(file))
    assert expected in error.expected
    assert got in error.got
    assert str(error).startswith(f"{file}, line {line}: expected ")
    assert len(str(error)) < 600 + len(str(file))


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_file_that_was_cut_short_is_recognized(cut: int, tmp_path: Path) -> None:
    error = error_of(write(tmp_path, "\n".join(lines_of(GOOD))[:-cut]))
    assert error.line == 4
    assert "the file was cut short" in error.got


def test_the_small_trace_cut_anywhere_is_no_trace_or_a_shorter_one(tmp_path: Path) -> None:
    whole = SMALL.read_bytes()
    for cut in range(200, 1500, 37):
        file = write(tmp_path, whole[:cut])
        if whole[cut - 1 : cut] == b"}" or whole[cut - 1 : cut] == b"\n":
            assert load_trace(file).requests
        else:
            assert error_of(file).line == whole[:cut].count(b"\n") + 1


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    error = error_of(write(tmp_path, lines_of(GOOD)[0].encode() + b'\n{"a": "\xff"}\n'))
    assert (error.line, error.expected, error.got) == (2, "UTF-8", "byte 0xff at column 8")


def test_nothing_in_an_error_moves_a_terminal(tmp_path: Path) -> None:
    assert str(error_of(write(tmp_path, replaced(2, '"\x1b[2J\u202e"')))).isprintable()
    assert str(error_of(write(tmp_path, replaced(2, '{"\\u001b[2J": 1}')))).isprintable()
    assert str(error_of(tmp_path / "no\x1bsuch\nfile")).isprintable()


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (lambda path: path, "Is a directory"),
        (lambda path: path / "missing.jsonl", "No such file"),
        (lambda path: path / "nul\0.jsonl", "embedded null"),
        (lambda path: write(path, ""), "an empty file"),
    ],
)
def test_a_file_that_is_no_trace_at_all(make: Callable[[Path], Path], got: str, tmp_path: Path) -> None:
    error = error_of(make(tmp_path))
    assert error.line is None
    assert got in error.got


def test_sizes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, changed(2, note="x" * mooncake.MAX_LINE))
    assert error_of(file).line == 2
    assert f"at most {mooncake.MAX_LINE} bytes" in error_of(file).expected
    file = write(tmp_path, changed(1))
    monkeypatch.setattr(mooncake, "MAX_REQUESTS", 3)
    assert error_of(file).line == 4
    monkeypatch.setattr(mooncake, "MAX_FILE", 100)
    assert error_of(file).expected == "at most 100 bytes"


@given(st.binary(max_size=200))
def test_whatever_the_bytes_only_a_trace_error_comes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    file.write_bytes(data)
    with pytest.raises(TraceError):
        load_trace(file)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2000) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@given(st.sampled_from(["timestamp", "input_length", "output_length", "hash_ids"]), JSON, st.integers(1, 4))
def test_whatever_a_key_holds_only_a_trace_error_comes(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: object, line: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    file.write_text(changed(line, **{key: value}))
    error = None
    try:
        assert len(load_trace(file).requests) == 4
    except TraceError as caught:
        error = caught
    assert error is None or (error.line is not None and line <= error.line <= 4)


def test_a_capacity_below_the_longest_request_names_its_line(tmp_path: Path) -> None:
    trace = load_trace(write(tmp_path, changed(1)))
    check_capacity(trace, "full-leaf", 2)
    check_capacity(trace, "all-leaf", 3)
    with pytest.raises(TraceError, match=r"line 2: expected a capacity of at least 3 blocks .* got 2"):
        check_capacity(trace, "all-leaf", 2)
    with pytest.raises(TraceError, match=r"line 1: expected a capacity of at least 2 blocks .* got 1"):
        check_capacity(trace, "full-leaf", 1)
