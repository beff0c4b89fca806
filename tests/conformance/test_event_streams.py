"""Streams of KV events: a legal one is never accused, however little of it was captured; a planted fault is told."""

from __future__ import annotations

import copy
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.history.streams import mirror
from kvlitmus.conformance.history.streams.capture import MAX_BATCH, is_stream
from kvlitmus.conformance.history.streams.forms import Batch, events_of
from kvlitmus.conformance.history.streams.judge import JudgedStream, StreamJudge
from kvlitmus.conformance.ports import Profile
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.published import PACKED, SIZE, Told, as_lines, as_messages, events_in, legal, written
from tests.conformance.support.schemas import fits
from tests.support.pages import DOCS, follow

LEGAL = legal()


def judged(batches: list[Told], copies: str = "one", **options: Any) -> JudgedStream:
    """What comes of a stream."""
    judge = StreamJudge("events", all_rules(), Profile(event_copies=copies), keep_going=True, **options)
    told = [
        Batch(line, str(one.get("rank", "")), one.get("seq"), events_of(one["events"], None), repr(one).encode())
        for line, one in enumerate(batches, 1)
    ]
    list(judge.run(told))
    return judge.outcome


def broken(batches: list[Told], **options: Any) -> set[str]:
    """The rules that a stream breaks."""
    return {rule for one in judged(batches, **options).findings for rule in one.finding.rules}


# -- what is legal -----------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 1_000), st.sets(st.integers(0, 40)))
def test_what_was_not_captured_is_held_against_nobody(seed: int, lost: set[int]) -> None:
    batches = legal(seed, 40)
    kept = [one for at, one in enumerate(batches) if at not in lost]
    outcome = judged(kept)
    assert outcome.findings == [] and outcome.batches == len(kept)


def test_a_capture_that_begins_late_is_told_so_or_numbered() -> None:
    late = copy.deepcopy(LEGAL[20:])
    assert broken(late) == set()
    for one in late:
        del one["seq"]
    assert broken(late) != set() and broken(late, complete=False) == set()


def test_what_is_sent_again_is_one_batch_and_a_publisher_may_begin_anew() -> None:
    again = [one for batch in LEGAL for one in (batch, batch)]
    assert judged(again).batches == len(LEGAL) and broken(again) == set()
    assert broken([*LEGAL[:20], *LEGAL[5:10], *LEGAL[20:]]) == set()  # a replay
    assert broken([*LEGAL, *legal(1)]) == set()  # a restart
    assert broken([*LEGAL, *legal(1)[3:]]) == set()  # a restart of which the first batches are lost


def test_each_publisher_is_mirrored_by_itself() -> None:
    both = [{**one, "rank": at} for pair in zip(legal(0), legal(1), strict=False) for at, one in enumerate(pair)]
    assert broken(both) == set()
    assert broken([{**one, "rank": 0} for one in both]) != set()


def test_of_copies_that_count_the_last_one_ends_it() -> None:
    stored = {**events_in(LEGAL, "BlockStored")[0], "block_hashes": [1]}
    removed = {"type": "BlockRemoved", "block_hashes": [1], "medium": "GPU"}
    twice = [{"events": [stored]}, {"events": [stored]}, {"events": [removed]}, {"events": [removed]}]
    assert broken(twice, copies="each") == set()
    assert broken(twice) == {"EVENT-01"}
    assert broken([*twice, {"events": [removed]}], copies="each") == {"EVENT-01"}


def test_what_is_on_another_tier_is_somewhere() -> None:
    first, second = events_in(LEGAL, "BlockStored")[:2]
    second = {**second, "parent_block_hash": first["block_hashes"][0]}
    removed = {"type": "BlockRemoved", "block_hashes": first["block_hashes"], "medium": "GPU"}
    on_host = {**first, "medium": "CPU_PINNED"}
    assert broken([{"events": [first, on_host, removed, second]}]) == set()
    assert broken([{"events": [first, removed, second]}]) == {"EVENT-07"}
    elsewhere = {**removed, "medium": "CPU", "locality": "REMOTE"}
    assert broken([{"events": [first, on_host, elsewhere]}]) == {"EVENT-01"}


def test_what_a_hash_depends_on_beside_tokens_makes_another_block() -> None:
    first = {**events_in(LEGAL, "BlockStored")[0], "block_hashes": [1]}
    other = {**first, "block_hashes": [2]}
    assert broken([{"events": [first, other]}]) == {"EVENT-12"}
    for name, value in (("extra_keys", [["image", 0]]), ("lookahead_token_ids", [[7]])):
        assert broken([{"events": [first, {**other, name: value}]}]) == set()
    assert broken([{"events": [first, {**other, "lora_name": "b"}]}]) == set()


def test_windows_and_states_are_followed_by_their_names_alone() -> None:
    stored = {**events_in(LEGAL, "BlockStored")[0], "block_hashes": [1], "parent_block_hash": 99}
    window = {**stored, "group_idx": 1, "kv_cache_spec_kind": "sliding_window", "token_ids": list(range(8))}
    removed = {"type": "BlockRemoved", "block_hashes": [1], "medium": "GPU", "group_idx": 1}
    assert broken([{"events": [window, removed]}]) == set()
    assert broken([{"events": [window, removed, removed]}]) == {"EVENT-01"}
    assert broken([{"events": [stored]}]) == {"EVENT-01"}


# -- planted faults ----------------------------------------------------------------------------


def first_stored(batches: list[Told]) -> Told:
    """The first event that has a block below another one."""
    return next(one for one in events_in(batches, "BlockStored") if one["parent_block_hash"] is not None)


def untold(batches: list[Told]) -> None:
    """A block is removed of which nobody was told."""
    batches[3]["events"].append({"type": "BlockRemoved", "block_hashes": [-5], "medium": "GPU"})


def short(batches: list[Told]) -> None:
    """A block has a token less than it should."""
    first_stored(batches)["token_ids"].pop()


def lost_parent(batches: list[Told]) -> None:
    """The parent is named by what nobody was told of."""
    first_stored(batches)["parent_block_hash"] = -7


def renamed(batches: list[Told]) -> None:
    """A block gets the name of the one above it."""
    one = first_stored(batches)
    one["block_hashes"] = [one["parent_block_hash"]]


def strayed(batches: list[Told]) -> None:
    """A block is told with another adapter than the one above it."""
    first_stored(batches)["lora_name"] = "another"


def orphaned(batches: list[Told]) -> None:
    """A block is told right after the one above it was removed."""
    at = next(at for at, one in enumerate(batches) if first_stored(batches) in one["events"])
    parent = first_stored(batches)["parent_block_hash"]
    events = batches[at]["events"]
    events.insert(
        events.index(first_stored(batches)), {"type": "BlockRemoved", "block_hashes": [parent], "medium": "GPU"}
    )


def numbered_twice(batches: list[Told]) -> None:
    """Two batches have one number."""
    batches[9]["seq"] = batches[8]["seq"]


def two_names(batches: list[Told]) -> None:
    """A block is told by a second name."""
    batches[0]["events"].append({**batches[0]["events"][0], "block_hashes": [-9]})


PLANTED: dict[Callable[[list[Told]], None], str] = {
    untold: "EVENT-01",
    short: "EVENT-01",
    lost_parent: "EVENT-01",
    renamed: "EVENT-05",
    strayed: "EVENT-06",
    orphaned: "EVENT-07",
    numbered_twice: "EVENT-11",
    two_names: "EVENT-12",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda one: one.__name__)
def test_a_planted_fault_is_told_by_its_rule_where_it_is(
    plant: Callable[[list[Told]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = copy.deepcopy(LEGAL)
    plant(batches)
    where = next(at for at, (one, was) in enumerate(zip(batches, LEGAL, strict=True), 1) if one != was)
    code = main(["check", "--events", "--json", written(tmp_path, as_lines(batches))])
    data = json.loads(capsys.readouterr().out)
    assert fits(data, "report") == []
    assert PLANTED[plant] in data["findings"][0]["rules"] and data["events"]["findings"][0]["line"] == where
    assert code == (0 if all_rules()[PLANTED[plant]].strength.value == "SHOULD" else 1)


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    text = (DOCS / "events.md").read_text(encoding="utf-8")
    assert [command.split()[0] for command in follow(text, tmp_path)] == ["kvlitmus"]
    for id in PLANTED.values():
        assert f"| `{id}` |" in text


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", PACKED)
@pytest.mark.parametrize("form", [as_lines, as_messages])
def test_a_stream_is_seen_by_its_content(
    form: Callable[[list[Told]], bytes], pack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written(tmp_path, PACKED[pack](form(LEGAL)))]) == 0
    out = capsys.readouterr().out
    stored, last = len(events_in(LEGAL, "BlockStored")), len(LEGAL)
    assert (
        stored and f"events in {last} batches judged, up to {'line' if form is as_lines else 'message'} {last}," in out
    )
    assert "on the device" in out


def test_other_ways_to_write_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = events_in(LEGAL, "BlockStored")[0]
    array = ["BlockStored", event["block_hashes"], None, event["token_ids"], SIZE, None, "GPU"]
    for line in (event, array, [1.5, [event], 0], {"seq": 0, "batch": [1.5, [array]]}, {"events": [event]}):
        assert main(["check", written(tmp_path, json.dumps(line).encode() + b"\n")]) == 0
        assert "1 block on the device" in capsys.readouterr().out
    for packed in (
        [1.5, [event]],
        [b"\0" * 8, msgpack.packb([1.5, [array], 0])],
        [b"", b"kv", b"\0" * 8, msgpack.packb([1, [array]])],
    ):
        assert main(["check", written(tmp_path, msgpack.packb(packed))]) == 0
        assert "1 block on the device" in capsys.readouterr().out
    ended = msgpack.packb([b"", b"", (-1).to_bytes(8, "big", signed=True), b""])
    assert main(["check", written(tmp_path, as_messages(LEGAL) + ended)]) == 0


def test_a_pipe_is_read_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stdin = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(as_messages(LEGAL))))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["check", "-"]) == 0 and f"in {len(LEGAL)} batches" in capsys.readouterr().out


STORED = {**events_in(LEGAL, "BlockStored")[0], "lora_name": None}

BAD: dict[str, tuple[bytes, str]] = {
    "blank": (b'{"events": []}\n\n', "line 2: expected a batch of events in JSON, got a blank line"),
    "no JSON": (b'{"events": []}\n{"events": [}\n', "line 2: expected a batch of events in JSON"),
    "a number": (b'{"events": []}\n5\n', "line 2: expected a batch such as"),
    "no kind": (b'{"events": [{}]}\n', 'line 1: expected an event with its "type", in event 1'),
    "another kind": (b'{"events": [{"type": "BlockMoved"}]}\n', "line 1: expected an event of BlockStored"),
    "no hashes": (b'{"events": [{"type": "BlockRemoved"}]}\n', "expected block_hashes to be a list, in event 1"),
    "odd hash": (b'{"events": [{"type": "BlockRemoved", "block_hashes": [[1]]}]}\n', "expected the hash of a block"),
    "seq": (b'{"seq": "1", "events": []}\n', "expected seq to be a whole number"),
    "rank": (b'{"data_parallel_rank": "x", "events": []}\n', "expected the rank of a batch to be a whole number"),
    **{
        name: (json.dumps({"events": [{**STORED, name: value}]}).encode() + b"\n", f"expected {what}")
        for name, value, what in (
            ("block_size", 0, "block_size to be a whole number from 1"),
            ("token_ids", None, "token_ids to be a list"),
            ("token_ids", ["x"], "a token to be a whole number"),
            ("parent_block_hash", 1.5, "the hash of a block"),
            ("medium", 3, "medium to be a text"),
            ("group_idx", -1, "group_idx to be a whole number"),
            ("lora_id", 1.5, "lora_id to be a whole number"),
            ("extra_keys", [None, None], "extra_keys to be a list of one entry for each of 1 blocks"),
        )
    },
    "no msgpack": (as_messages(LEGAL[:2]) + b"\xc1", "message 3: expected a message in msgpack from byte"),
    "odd frames": (msgpack.packb([b"kv", b"1", b""]), "message 1: expected frames [topic, number in 8 bytes, batch]"),
    "odd payload": (
        msgpack.packb([b"kv", bytes(8), b"\xc1"]),
        "message 1: expected a batch in msgpack in the last frame",
    ),
    "deep": (msgpack.packb([b"kv", bytes(8), b"\x91" * 5_000 + b"\x01"]), "message 1: expected a batch in msgpack"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_file_is_told_in_a_line_with_its_place(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, says = BAD[name]
    assert main(["check", "--events", written(tmp_path, raw)]) == 2
    complaint = capsys.readouterr().err
    assert says in complaint and complaint.count("\n") == 1


def test_unknown_kinds_are_counted_where_that_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"events": [{"type": "BlockMoved"}, *LEGAL[0]["events"]]}
    assert main(["check", "--ignore-unknown", written(tmp_path, as_lines([line]))]) == 0
    assert "1 event of the kind 'BlockMoved' not judged" in capsys.readouterr().out


@pytest.mark.parametrize("pack", PACKED)
@pytest.mark.parametrize("form", [as_lines, as_messages])
def test_a_file_that_breaks_off_is_judged_as_far_as_it_goes(
    form: Callable[[list[Told]], bytes], pack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = PACKED[pack](form(LEGAL[:6]))
    for end in range(10, len(raw) - 1, max(1, len(raw) // 12)):
        code = main(["check", "--events", written(tmp_path, raw[:end])])
        out = capsys.readouterr().out
        assert (code == 4 and "the stream is torn: " in out) or (code == 0 and raw[:end].endswith(b"\n")), (end, out)


def test_msgpack_is_asked_for_by_name_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    assert main(["check", written(tmp_path, as_messages(LEGAL))]) == 2
    assert "pip install 'kvlitmus[events]'" in capsys.readouterr().err
    assert main(["check", written(tmp_path, as_lines(LEGAL))]) == 0


def test_what_is_no_stream_is_read_as_a_trace() -> None:
    for other in (b"", b"hello", b'{"kind": "kvlitmus trace", "events": []}', b'{"call": "events", "answer": []}'):
        assert not is_stream(other)


def test_a_batch_may_not_be_larger_than_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims = b"\x93\xc4\x00\xc6" + (MAX_BATCH + 9).to_bytes(4, "big") + bytes(100)
    assert main(["check", written(tmp_path, claims)]) in (2, 4)
    told = capsys.readouterr()
    assert "message 1" in told.out + told.err


def test_what_is_kept_of_a_long_stream_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "PAST", 50)
    monkeypatch.setattr(mirror, "KEPT", 50)
    publisher = mirror.Publisher(StreamJudge("", {}, Profile()).setting, complete=True)
    for at in range(3_000):
        stored = {**STORED, "block_hashes": [at], "token_ids": [at, at]}
        removed: Told = {"type": "BlockRemoved", "block_hashes": [at], "medium": "GPU"}
        batch = Batch(at, "", at, events_of([stored, removed], None), str(at).encode())
        assert publisher.numbered(batch) is not None and publisher.hear(batch).odd == []
    (group,) = publisher.groups.values()
    tables = (group.pages, group.roots, group.ids, group.plain, group.past, group.gone, publisher.known)
    assert max(len(one) for one in tables) <= 50
