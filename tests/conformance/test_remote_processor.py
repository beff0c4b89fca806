"""A worker and the process of a cache share a processor for an item: where they may, and no longer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvlitmus.conformance.isolation.remote.fault import RemoteFault
from kvlitmus.conformance.isolation.remote.process import Line
from kvlitmus.conformance.isolation.remote.processor import Processor, running_on, threads
from kvlitmus.conformance.isolation.remote.target import RemoteTarget
from kvlitmus.conformance.isolation.supervisor import run_items
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Item
from kvlitmus.conformance.run.targets import resolve_target
from tests.conformance.test_remote import HERE, OPTIONS, PAGE4, children
from tests.support.processes import eventually

ALL = os.sched_getaffinity(0)

pytestmark = pytest.mark.skipif(len(ALL) < 2, reason="there is one processor")

TELLS = """
import os, sys, threading, time
sys.path.insert(0, {here!r})
import rude
where = rude.Pool.call
def call(self, name, args):
    with open({log!r}, "a") as log:
        print(*sorted(os.sched_getaffinity(0)), file=log)
    return where(self, name, args)
rude.Pool.call = call
rude.main("fine")
"""
"""A pool that writes down on which processors it may run in each call."""

SERVES = """
import json, os, subprocess, sys, threading, time
{first}
for line in sys.stdin:
    {then}
    print("{{}}", flush=True)
"""
"""A process that does something first, and something before each answer."""


def where(pid: int = 0) -> set[int]:
    """The processors that a thread may use."""
    return os.sched_getaffinity(pid)


@contextmanager
def line(first: str = "", then: str = "pass", processor: Processor | None = None) -> Iterator[Line]:
    """Such a process, which has answered once."""
    words = (sys.executable, "-S", "-c", SERVES.format(first=first, then=then))
    made = Line(words, processor.part) if processor else Line(words)
    try:
        made.ask({})
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    """What runs these tests may use all processors afterwards, and no process is left."""
    before = children()
    yield
    assert [where(thread) for thread in threads(os.getpid())] == [ALL] * len(threads(os.getpid()))
    eventually(lambda: children() <= before)


def test_a_worker_plays_an_item_on_the_processor_of_the_cache(tmp_path: Path) -> None:
    log, script = tmp_path / "log", tmp_path / "tells.py"
    script.write_text(TELLS.format(here=str(HERE), log=str(log)))
    ref = resolve_target(f"exec:{sys.executable} -S {script}")
    items = [Item(kind="random", config=PAGE4, seed=seed, ops=20) for seed in (1, 2)]
    results = list(run_items(ref, items, OPTIONS, state=tmp_path))
    assert [one.findings for one in results] == [[], []]
    told = log.read_text().splitlines()
    assert len(told) > 20 and all(len(one.split()) == 1 for one in told)


def test_the_processor_is_the_one_that_a_thread_runs_on() -> None:
    try:
        for one in sorted(ALL):
            os.sched_setaffinity(0, {one})
            assert running_on() == one
    finally:
        os.sched_setaffinity(0, ALL)


def test_a_pair_shares_one_processor_and_has_all_of_them_afterwards() -> None:
    processor = Processor()
    with line() as one, line() as other:
        with processor.with_all([one, other]):
            assert where() == where(one.pid) == where(other.pid) and len(where()) == 1
            assert where() < ALL
        assert where() == where(one.pid) == where(other.pid) == ALL
        other.close()
        with processor.with_all([one, other]):
            assert where() == where(one.pid)
            one.close()
        assert where() == ALL


@pytest.mark.parametrize(
    ("first", "theirs"),
    [
        ("threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", ALL),
        (f"os.sched_setaffinity(0, {{{max(ALL)}}})", {max(ALL)}),
    ],
    ids=["threads", "chosen"],
)
def test_a_cache_with_threads_or_processors_of_its_own_is_left_alone(first: str, theirs: set[int]) -> None:
    with line(first) as one:
        with Processor().with_all([one]):
            assert where() == ALL
            assert where(one.pid) == theirs
        assert where(one.pid) == theirs


def test_what_a_cache_starts_meanwhile_may_use_all_processors_afterwards() -> None:
    starts = """
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    child = subprocess.Popen(["sleep", "600"])
"""
    with line(then=f"if line != '{{}}\\n':{starts.replace(chr(10), chr(10) + ' ' * 4)}") as one:
        with Processor().with_all([one]):
            one.ask({"start": 1})
            (child,) = map(int, Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split())
            started = [*threads(one.pid), child]
            assert len(started) == 3
            assert [where(thread) for thread in started] == [where()] * 3
        assert [where(thread) for thread in started] == [ALL] * 3


def test_what_a_cache_chooses_meanwhile_it_keeps() -> None:
    with line(then=f"os.sched_setaffinity(0, {{{min(ALL)}, {max(ALL)}}})") as one:
        os.sched_setaffinity(one.pid, ALL)
        with Processor().with_all([one]):
            one.ask({})
            assert where(one.pid) == {min(ALL), max(ALL)} and len(where()) == 1
        assert where(one.pid) == {min(ALL), max(ALL)}


def test_while_an_answer_is_long_in_coming_nothing_is_shared() -> None:
    processor = Processor()
    with line(then="time.sleep(0.5)", processor=processor) as one, processor.with_all([one]):
        assert len(where(one.pid)) == 1
        one.ask({})
        assert where() == where(one.pid) == ALL


def test_a_process_that_starts_meanwhile_finds_all_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[set[int]]()
    ask = Line.ask

    def asked(line: Line, message: dict[str, object]) -> dict[str, object]:
        if "hello" in message:
            found.append(where(line.pid))
        return ask(line, message)  # type: ignore[arg-type,return-value]

    monkeypatch.setattr(Line, "ask", asked)
    target = RemoteTarget((sys.executable, "-S", str(HERE / "rude.py"), "fine"))
    with target.on_one_processor():
        assert len(where()) == 1
        first, second = target.make(PAGE4), target.make(PAGE4)
    assert found == [ALL, ALL] and first is not second


def test_a_system_that_refuses_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    target = RemoteTarget((sys.executable, "-S", str(HERE / "rude.py"), "fine"))
    item = Item(kind="random", config=PAGE4, seed=1, ops=20)

    def refuse(*_: object) -> None:
        raise PermissionError

    for name in ("sched_getaffinity", "sched_setaffinity"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            with target.on_one_processor():
                result = run_item(target, item, OPTIONS)
        assert not result.findings and not result.error and result.steps
        assert where() == ALL


def test_a_fault_leaves_nothing_shared() -> None:
    with (
        line(then="os._exit(3) if line != '{}\\n' else 0") as one,
        pytest.raises(RemoteFault, match="exit status 3"),
        Processor().with_all([one]),
    ):
        one.ask({"end": 1})
