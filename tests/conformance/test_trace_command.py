"""Replaying a trace: what it prints, its exit codes, and caches that spoil a replay."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trace import command
from kvlitmus.conformance.ports import Config, Hit, Stored, Unsupported
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.spec.words.units import Key
from tests.conformance.test_trace import PINNED, SMALL


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog=command.NAME)
    command.add_arguments(parser)
    return command.run(parser.parse_args(arguments))


class Raises(Specimen):
    """Raises something with a terminal escape in it, in the middle."""

    def insert(self, key: Key, slots: Sequence[int], **options: Any) -> Stored:
        if self.pool.available() < 10:
            raise RuntimeError("\x1b[2Jout of luck")
        return super().insert(key, slots, **options)


class Exits(Specimen):
    """Ends the process."""

    def lock(self, handle: object) -> object:
        sys.exit(0)


class Talks(Specimen):
    """Prints in every call of match."""

    def match(self, key: Key) -> Hit:
        print("matching", len(key.tokens))
        return super().match(key)


class Interrupted(Specimen):
    """The user presses Ctrl-C while the second capacity is replayed."""

    def unlock(self, receipt: object) -> None:
        if self.config.pages == 40 and self.tree.clock > 100:
            raise KeyboardInterrupt
        super().unlock(receipt)


class OtherSlots(Specimen):
    """Finds the right length in the slots of somebody else."""

    def match(self, key: Key) -> Hit:
        hit = super().match(key)
        return hit._replace(slots=list(reversed(list(hit.slots or ()))))


class LongHit(Specimen):
    """Finds one block more than it has slots for."""

    def match(self, key: Key) -> Hit:
        hit = super().match(key)
        return hit._replace(length=hit.length + 1)


class NoHit(Specimen):
    """Answers a match with a plain list."""

    def match(self, key: Key) -> Hit:
        return list(super().match(key))  # type: ignore[return-value]


class Boasts(Specimen):
    """Reports more evicted than it freed."""

    def evict(self, n: int) -> int:
        return super().evict(n) + 1


class Idle(Specimen):
    """Evicts nothing."""

    def evict(self, n: int) -> int:
        return 0


class Repeats(Specimen):
    """Hands one slot out twice."""

    def alloc(self, n: int) -> Sequence[int] | None:
        slots = list(super().alloc(n) or ())
        return [*slots[:-1], slots[0]]


class Odd(Specimen):
    """Hands out slots that are truths."""

    def alloc(self, n: int) -> Sequence[int] | None:
        return [True] * n


class Refuses(Specimen):
    """Has memory and gives none."""

    def alloc(self, n: int) -> Sequence[int] | None:
        return None


class Claims(Specimen):
    """Says that more was cached already than it is given."""

    def insert(self, key: Key, slots: Sequence[int], **options: Any) -> Stored:
        super().insert(key, slots, **options)
        return Stored(len(slots) + 1)


class Blind(Specimen):
    """Doesn't tell slots."""

    def match(self, key: Key) -> Hit:
        return super().match(key)._replace(slots=None)


class NoLocks(Specimen):
    """Has no locks."""

    lock = None  # type: ignore[assignment]


def of(cache: type[Specimen]) -> SpecimenTarget:
    return SpecimenTarget(Parts(cache=cache))


class _Declines(SpecimenTarget):
    def make(self, config: Config) -> Specimen:
        raise Unsupported("pages of one token are \x1b[1mtoo small")


class _Broken(SpecimenTarget):
    def make(self, config: Config) -> Specimen:
        raise OSError("no device")


raises, exits, talks, interrupted = of(Raises), of(Exits), of(Talks), of(Interrupted)
other_slots, long_hit, no_hit, boasts, idle = of(OtherSlots), of(LongHit), of(NoHit), of(Boasts), of(Idle)
repeats, odd, refuses, claims, blind, no_locks = of(Repeats), of(Odd), of(Refuses), of(Claims), of(Blind), of(NoLocks)
declines, broken = _Declines(), _Broken()


def here(name: str) -> str:
    return f"{__name__}:{name}"


@pytest.mark.parametrize("variant", list(PINNED))
@pytest.mark.parametrize("target", ["specimen", "reference"])
def test_json_is_a_list_of_exactly_the_figures(variant: str, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    capacities = ",".join(str(figures.capacity) for figures in PINNED[variant])
    code = run(str(SMALL), "--json", "--variant", variant, "--target", target, "--capacity", capacities)
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert code == 0 and err == ""
    assert [list(row) for row in found] == [
        ["capacity", "hit_blocks", "hit_tokens", "evictions", "requests_with_hit"] for _ in PINNED[variant]
    ]
    assert [tuple(row.values()) for row in found] == list(PINNED[variant])


def test_the_table_holds_the_figures_and_what_the_trace_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(SMALL), "--capacity", "40,80") == 0
    out, err = capsys.readouterr()
    head, names, first, second = out.splitlines()
    assert err == "", "no progress where there is no terminal"
    assert head.startswith("240 requests, 641,491 input tokens; full-leaf: 1,158 blocks, 366 different")
    assert names.split()[:3] == ["capacity", "hit", "blocks"]
    assert first.split()[:7] == ["40", "653", "56.39%", "334,336", "52.12%", "465", "204"]
    assert second.split()[:7] == ["80", "756", "65.28%", "387,072", "60.34%", "322", "211"]
    assert len(names) == len(first) == len(second)


def test_default_capacities_stop_where_nothing_is_evicted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(SMALL), "--json", "--variant", "all-leaf") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["capacity"] for row in rows] == [500, 2000]
    assert [row["evictions"] > 0 for row in rows] == [True, False]


def test_default_capacities_begin_where_the_longest_request_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for blocks, expected in ((600, [2000]), (120_000, [120_000])):
        row = {"timestamp": 0, "input_length": 512 * blocks, "output_length": 0, "hash_ids": list(range(blocks))}
        (tmp_path / "long.jsonl").write_text(json.dumps(row) + "\n")
        assert run(str(tmp_path / "long.jsonl"), "--json") == 0
        assert [row["capacity"] for row in json.loads(capsys.readouterr().out)] == expected


@pytest.mark.parametrize(
    "text", ["0", "-5", "", "5,,6", "5,x", "1e3", "10000001", "9" * 5000, "٣", ",".join(["5"] * 101)]
)
def test_a_capacity_that_is_none_is_a_usage_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(str(SMALL), f"--capacity={text}")
    assert caught.value.code == 2
    assert "expected" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([str(SMALL), "--capacity", "40,5"], "line 194: expected a capacity of at least 14 blocks"),
        (["nowhere.jsonl"], "nowhere.jsonl: expected a file that can be read, got No such file or directory"),
        ([str(SMALL), "--target", "specimn"], "did you mean 'specimen'?"),
        ([str(SMALL), "--target", "no.such:thing"], "there is no module 'no.such'"),
        ([str(SMALL), "--target", "json:nothing"], "json has no 'nothing'"),
        ([str(SMALL), "--target", "json:loads"], "expected an object with make(config) and a Profile"),
        ([str(SMALL), "--target", here("NoLocks")], "it is a class"),
        ([str(SMALL), "--target", here("no_locks")], "it has no locks; a replay needs pool, tree, locks, evict"),
        ([str(SMALL), "--target", here("blind")], "its match does not tell slots"),
        ([str(SMALL), "--target", here("declines")], "pages of one token are \\x1b[1mtoo small"),
    ],
)
def test_what_cannot_be_replayed_is_a_usage_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments, "--json") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{command.NAME}: ") and message in err
    assert err.count("\n") == 1 and err[:-1].isprintable()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raises", "insert raised RuntimeError: \\x1b[2Jout of luck"),
        ("exits", "line 1: lock raised SystemExit: 0"),
        ("other_slots", "line 2: match gave slot 3 for block 0, which is not in it"),
        ("long_hit", "line 1: match answered length 1 with 0 slots"),
        ("no_hit", "line 1: match answered [0, [], "),
        ("boasts", "available went from"),
        ("idle", "answered 0; available went from"),
        ("repeats", "line 1: alloc(3) answered 2 different slots"),
        ("odd", "line 1: alloc answered True where a slot belongs"),
        ("refuses", "line 1: alloc(3) answered None, although enough was available"),
        ("claims", "line 1: insert answered 4 blocks cached already, of 3, 0 locked"),
        ("broken", "make raised OSError: no device"),
    ],
)
def test_a_cache_that_fails_is_reported_for_what_it_did(
    name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(SMALL), "--json", "--capacity", "60", "--target", here(name)) == 3
    out, err = capsys.readouterr()
    assert out in ("[]\n", "")
    assert err.startswith(f"{command.NAME}: target '{here(name)}' failed: ") and message in err
    assert err.count("\n") == 1 and err[:-1].isprintable()


def test_what_a_cache_prints_does_not_get_between_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(SMALL), "--json", "--capacity", "40", "--target", here("talks")) == 0
    out, err = capsys.readouterr()
    assert tuple(json.loads(out)[0].values()) == PINNED["full-leaf"][1]
    assert err.startswith("matching 3\n")


@pytest.mark.parametrize("form", [["--json"], []])
def test_an_interrupt_leaves_the_capacities_that_were_finished(
    form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(SMALL), "--capacity", "20,40,80", "--target", here("interrupted"), *form) == 130
    out, err = capsys.readouterr()
    assert "interrupted" in err
    if form:
        assert [tuple(row.values()) for row in json.loads(out)] == [PINNED["full-leaf"][0]]
    else:
        assert out.splitlines()[-1].split()[:2] == ["20", "529"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_wiped() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        progress = command.Progress(stream, 2000, 12031)
        progress.show(256)
        progress.show(512)
        progress.clear()
    assert terminal.getvalue() == "\r\x1b[Kcapacity 2,000: 256 of 12,031 requests\r\x1b[K", (
        "not faster than one can read"
    )
    assert pipe.getvalue() == ""
