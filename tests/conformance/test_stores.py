"""Page stores judged alone: correct ones pass, planted faults show, and the adapters do what they say."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvlitmus.conformance.adapters.reference.store import Box, ReferenceStore, replacing, target
from kvlitmus.conformance.adapters.stores import redis as redis_store
from kvlitmus.conformance.adapters.stores import scratch
from kvlitmus.conformance.adapters.stores.dying import die_while
from kvlitmus.conformance.adapters.stores.file import FileStoreAdapter
from kvlitmus.conformance.adapters.stores.file import target as file_store
from kvlitmus.conformance.adapters.stores.target import WITHOUT_YARD, StoreTarget
from kvlitmus.conformance.checker.calls import stores as store_calls
from kvlitmus.conformance.generate.actions import stores as actions
from kvlitmus.conformance.generate.caller import Caller
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config, Profile, Unsupported, capabilities_of
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.law.plan import value_of
from kvlitmus.spec.prefix.calls import Raised
from kvlitmus.spec.stores.calls import (
    Cleared,
    PutDone,
    StoreCall,
    StoreClear,
    StoreDamage,
    StoreExists,
    StoreGet,
    StorePut,
    StoreRank,
)
from kvlitmus.spec.stores.state import EMPTY_STORE, NOTHING, VAGUE, Entry, StoreState, advance_store, doubtful
from tests.support.processes import eventually

PLAIN = plan.STORE_CONFIGS[0]
FIRST = Profile(store_put="first")
OPTIONS = Options(shrink_trials=0)


def items(one: Any, rounds: int = 2, litmus: bool = True) -> list[Item]:
    """A short run of a page store."""
    return plan.items(plan.STORE_CONFIGS, one.profile, steps=rounds * plan.OPS, litmus=litmus)


def judged(one: Any, rounds: int = 2, litmus: bool = True) -> list[ItemResult]:
    """What came of it."""
    return [engine.run_item(one, item, OPTIONS) for item in items(one, rounds, litmus)]


def broken(results: Sequence[ItemResult]) -> set[str]:
    """The rules that were broken."""
    assert [result.error for result in results if result.error] == []
    return {rule for result in results for finding in result.findings for rule in finding.rules}


@pytest.mark.parametrize(
    "one", [specimen, target, replacing, file_store], ids=["specimen", "reference", "replacing", "file"]
)
def test_a_correct_store_passes_and_every_rule_is_reached(one: Any) -> None:
    results = judged(one)
    assert broken(results) == set()
    assert [(result.item, result.unexercised) for result in results if result.unexercised] == []
    evaluated = {rule for result in results for rule, times in result.evaluated.items() if times}
    lacking = set() if "store_yard" in capabilities_of(one.make(PLAIN)) else {"STORE-15"}
    assert {f"STORE-{number:02}" for number in range(1, 20)} - evaluated == lacking


class InPlace(FileStoreAdapter):
    """The file store without its temporary file: what its rename is for."""

    def opened(self, rank: int) -> Any:
        store = super().opened(rank)

        def write(path: Path, head: bytes, page: memoryview) -> None:
            path.parent.mkdir(exist_ok=True)
            if path.is_symlink() or path.is_fifo():
                path.unlink()
            path.write_bytes(head + bytes(page))

        store._write = write
        return store


def test_a_crash_and_a_reader_show_a_store_that_writes_in_place() -> None:
    """Its checksum keeps the half from being returned; ``exists`` must not count it, and it doesn't."""
    assert broken(judged(StoreTarget(InPlace), rounds=1)) == set()

    class Careless(InPlace):
        def store_exists(self, keys: Sequence[str]) -> int:
            found = [path is not None and path.exists() for path in map(self.file_of, keys)]
            return (*found, False).index(False)

    careless = StoreTarget(Careless)
    assert any("STORE-11" in broken([engine.run_item(careless, item, OPTIONS)]) for item in items(careless))


class Wrong(ReferenceStore):
    """A store whose answers have not the promised form, one at a time."""

    answer: Any = None

    def store_exists(self, keys: Sequence[str]) -> int:
        if isinstance(self.answer, bool | float):
            return self.answer  # type: ignore[return-value]
        return super().store_exists(keys)

    def store_get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, str | list):
            return self.answer  # type: ignore[return-value]
        return super().store_get(keys, size)


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (True, "PORT-03"),
        (0.5, "PORT-03"),
        ("pages", "PORT-03"),
        ([bytearray(64)], "PORT-03"),
        (ValueError("out of order"), "PORT-01"),
    ],
)
def test_what_is_no_answer_is_a_broken_port(answer: Any, rule: str) -> None:
    class Planted(Wrong):
        pass

    Planted.answer = answer

    wrong = StoreTarget(lambda: Planted(Box(replaces=False)), capabilities=WITHOUT_YARD)
    found = broken(judged(wrong, rounds=1))
    assert rule in found
    assert found.isdisjoint({"PORT-02", "PORT-04"})


def test_a_store_alone_is_judged_as_one() -> None:
    assert plan.configs_of(target) == plan.STORE_CONFIGS
    assert set(plan.configs_of(specimen)) >= {*plan.CONFIGS, *plan.STORE_CONFIGS}

    class Bare:
        capabilities = frozenset({"store"})
        profile = Profile()

    assert plan.configs_of(Bare()) == plan.STORE_CONFIGS
    with pytest.raises(Unsupported):
        target.make(Config())
    for config in (*plan.CONFIGS, *plan.STORE_CONFIGS):
        for test in all_litmus().values():
            fits = plan.suits(test, config, Profile(), force_misuse=True)
            assert not fits or ("store" in test.needs) == (config.pool == "store")
    items = plan.items(plan.configs_of(specimen), specimen.profile, steps=0)
    race = [item for item in items if item.name == "store/a-reader-comes-while-pages-are-written"]
    assert [item.config for item in race] == [PLAIN]


def test_a_run_of_a_store_is_sensible(capfd: pytest.CaptureFixture[str]) -> None:
    from kvlitmus.conformance.cli import main

    assert main(["run", "reference-store", "--steps", "250", "--jobs", "1"]) == 0
    shown = capfd.readouterr().out
    assert "✓ store" in shown
    assert "pool, tree, lock" in shown and "not exercised" not in shown


# -- what the suite knows -----------------------------------------------------------------------------


def test_what_may_be_there_after_puts() -> None:
    once = NOTHING.put(b"1", True, "first")
    assert once == Entry(True, (b"1",), b"1")
    assert once.put(b"2", True, "first").due == b"1"
    assert once.put(b"2", True, "last").due == b"2"
    either = once.put(b"2", True, "either")
    assert (either.due, either.puts) == (None, (b"1", b"2"))
    assert either.read(b"2").due == b"2"
    assert NOTHING.put(b"1", False, "first") == Entry(None, (b"1",))
    assert NOTHING.put(b"1", False, "first").read(None) == NOTHING
    assert once.read(None) == once, "a miss of what must be there is a broken rule, and nothing is learned from it"


def test_what_may_be_there_after_damage() -> None:
    hurt = NOTHING.put(b"1", True, "first").damaged("flip")
    assert (hurt.there, hurt.damage) == (None, "flip")
    assert hurt.read(None) == hurt
    mended = hurt.put(b"2", True, "first").put(b"3", True, "first")
    assert mended.mended == (b"2",)
    assert mended.read(b"2") == Entry(True, (b"1", b"2", b"3"), b"2")
    assert hurt.put(b"2", True, "last").put(b"3", True, "last").mended == (b"3",)
    assert hurt.put(b"2", True, "either").put(b"3", True, "either").mended == (b"2", b"3")
    assert hurt.damaged("gone") == NOTHING


def test_what_is_known_of_another_ranks_pages() -> None:
    def after(state: StoreState, *calls: tuple[StoreCall, object]) -> StoreState:
        for call, answer in calls:
            state = advance_store(state, FIRST, call, answer)
        return state

    stored = PutDone((True,))
    put, again = StorePut(("k",), (b"1",)), StorePut(("hurt",), (b"3",))
    hurt = ((StorePut(("hurt",), (b"1",)), stored), (StoreDamage("hurt", "flip"), True))
    mended = (StorePut(("hurt",), (b"2",)), stored)
    state = after(EMPTY_STORE, (put, stored), *hurt, mended, (StoreRank(1), None))
    assert state.entry("k") == NOTHING
    assert state.foreign("k") == {b"1"}
    state = after(state, (StoreClear(), Cleared(())), (StoreRank(0), None))
    assert state.entry("k").there is None, "nobody promised that a clear takes, or leaves, what other ranks stored"
    assert after(state, (again, stored)).entry("hurt").mended == (), "the first put may have been cleared or not"
    assert after(state, (StoreClear(), Cleared(()))).known() == []


def test_what_raised_tells_nothing_of_what_was_read_and_leaves_open_what_was_put() -> None:
    state = advance_store(EMPTY_STORE, FIRST, StorePut(("a", "b"), (b"1", b"2")), PutDone((True, False)))
    assert (state.entry("a"), state.entry("b")) == (Entry(True, (b"1",), b"1"), Entry(None, (b"2",)))
    for call in (StoreExists(("a", "b")), StoreGet(("a", "b"), 1)):
        assert advance_store(state, FIRST, call, Raised("OSError")) == state
    seen = advance_store(state, FIRST, StoreExists(("a", "b")), 1)
    assert seen.entry("b") == NOTHING, "the first key that is not counted is not there"
    assert advance_store(EMPTY_STORE, FIRST, StorePut(("a",), (b"1",)), PutDone(None)).entry("a").there is None
    answered_short = advance_store(EMPTY_STORE, FIRST, StorePut(("a",), (b"1",)), PutDone(()))
    assert not answered_short.entries, "STORE-02 is broken then, and nobody says what is there"


def test_what_is_known_of_a_store_that_evicts() -> None:
    """A put may have taken anything but the last page that it stored, and nothing else takes anything."""
    bounded, both = Profile(store_room="evicts"), PutDone((True, True))
    state = advance_store(EMPTY_STORE, bounded, StorePut(("a", "b"), (b"1", b"2")), both)
    assert (state.entry("a").there, state.entry("b").there) == (None, True)
    state = advance_store(state, bounded, StoreGet(("a", "b"), 1), (b"1", b"2"))
    assert state.entry("a").there is True
    for call, answer in ((StoreExists(("a",)), 1), (StoreRank(1), None)):
        state = advance_store(state, bounded, call, answer)
    state = advance_store(state, bounded, StorePut(("c",), (b"3",)), PutDone((False,)))
    assert {at: entry.there for at, entry in state.entries.items()} == {(0, "a"): None, (0, "b"): None, (1, "c"): None}
    hurt = Entry(None, (b"1",), damage="flip", mended=(b"2",))
    assert doubtful(hurt) == Entry(None, (b"1",), damage=VAGUE), "what was mended may have gone, and what is hurt, too"
    assert doubtful(NOTHING) == NOTHING


def test_odd_keys_are_judged_apart() -> None:
    plain, odd = "0" * 64, "../x"
    state = advance_store(EMPTY_STORE, FIRST, StorePut((plain, odd), (b"1", b"2")), PutDone((True, True)))
    call = StoreGet((odd, plain), 1)

    def fact(name: str, answer: object) -> object:
        return value_of(name, {"state": state, "call": call, "answer": answer}, {})

    def got(name: str, answer: tuple[bytes, ...]) -> list[tuple[bytes | None, tuple[bytes, ...]]]:
        reads = fact(name, answer)
        assert isinstance(reads, list)
        return [(one.got, one.known.puts) for one in reads]

    assert got("store_reads", (b"2", b"1")) == [(b"1", (b"1",))]
    assert got("store_odd_reads", (b"2", b"1")) == [(b"2", (b"2",))]
    assert got("store_odd_reads", (b"2", b"2")) == [(b"2", (b"2",)), (b"2", (b"1",))], "odd anywhere"
    assert fact("store_reads", Raised("OSError")) is fact("store_odd_reads", Raised("OSError")) is UNKNOWN


# -- what adapters stand on ---------------------------------------------------------------------------


def test_a_writer_dies_at_that_very_byte(tmp_path: Path) -> None:
    path = tmp_path / "page"
    for after, left in ((0, 0), (1, 1), (700, 700), (5_000, 1_000)):
        die_while(lambda: path.write_bytes(b"x" * 1_000), after)
        assert path.stat().st_size == left
    path.write_bytes(b"x" * 2_000)  # this process may go on writing what it likes


KEPT = """
import os, time
from kvlitmus.conformance.adapters.stores import scratch
folder = scratch.kept_folder(*{command!r})
(folder / "file").write_text("x")
print(folder, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("command", [(), (sys.executable, "-c", "import time; time.sleep(600)", "{folder}")])
def test_a_folder_and_its_server_end_with_a_process_that_is_killed(command: tuple[str, ...]) -> None:
    code = KEPT.format(command=command)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert (folder / "file").is_file()
        process.send_signal(signal.SIGKILL)
    eventually(lambda: not folder.exists() and not (command and running(str(folder))), "an end of folder and server")


def running(argument: str) -> bool:
    """Whether a process has this among its arguments, that isn't its keeper."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if argument in (words := (entry / "cmdline").read_text().split("\0")) and scratch.KEEPER not in words:
                return True
        except OSError:
            continue
    return False


# -- Redis and Valkey ---------------------------------------------------------------------------------


def test_addresses_of_servers() -> None:
    assert redis_store.address_of("redis://host") == redis_store.Address("host", 6379)
    assert redis_store.address_of("valkey://u:p%40@host:7000/3") == redis_store.Address(
        "host", 7000, ((b"AUTH", b"u", b"p@"), (b"SELECT", b"3"))
    )
    for url in ("http://host", "redis://", "redis://host:port", "redis://host/name"):
        with pytest.raises(Unsupported, match="must look like"):
            redis_store.address_of(url)
    assert redis_store.encoded((b"SET", b"k", b"\r\n")) == b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n"


def test_without_a_server_nothing_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(redis_store.VARIABLE, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    result = engine.run_item(redis_store.valkey, Item(kind="random", config=PLAIN, seed=0, ops=10), OPTIONS)
    assert result.unsupported.startswith("not run: valkey-server not found")
    assert "apt-get install valkey-server" in result.unsupported
    monkeypatch.setenv(redis_store.VARIABLE, "redis://127.0.0.1:1/0")
    with pytest.raises(Unsupported, match="can't be used"):
        redis_store.redis.make(PLAIN)


@pytest.mark.parametrize(
    ("program", "one"), [("redis-server", redis_store.redis), ("valkey-server", redis_store.valkey)]
)
def test_a_real_server_passes(program: str, one: StoreTarget) -> None:
    if not os.environ.get(redis_store.VARIABLE) and not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    assert broken(judged(one)) == set()


def test_a_server_in_use_is_left_as_it_was() -> None:
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    store = redis_store.redis.make(PLAIN)
    mine = redis_store.Connection(store.address)
    mine.ask(b"SET", b"mine", b"1")
    before = set(mine.ask(b"KEYS", b"*"))
    assert store.store_put(["a", "b"], [b"1", b"2"]) == [True, True]
    store.store_crash("c", b"0123456789", 5)
    assert len(set(mine.ask(b"KEYS", b"*")) - before) == 2
    store.store_clear()
    assert set(mine.ask(b"KEYS", b"*")) == before
    store.store_put(["a"], [b"1"])
    store.__del__()
    assert set(mine.ask(b"KEYS", b"*")) == before
    mine.ask(b"DEL", b"mine")
    mine.close()


@pytest.mark.parametrize(("b", "read"), [(1, 0), (128, 1)])
def test_what_is_damaged_is_read_or_else_first_put(b: int, read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(store_calls, "damage", lambda *given: True)
    monkeypatch.setattr(store_calls, "get", lambda *given: asked.append(given))
    actions.damage(Caller(cast("Any", SimpleNamespace(config=Config()))), 0, b, 0)
    assert len(asked) == read
