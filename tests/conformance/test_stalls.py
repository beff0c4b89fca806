"""Lost time: what a busy machine does to a worker is no verdict on a cache, and a hang still is."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kvlitmus.conformance.fuzz.job_runner import Done, Job, JobRunner
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.isolation import process
from kvlitmus.conformance.isolation.crash_triage import CrashTriage, Trial
from kvlitmus.conformance.isolation.process import Process
from kvlitmus.conformance.isolation.supervisor import Event, run_items
from kvlitmus.conformance.isolation.watchdog import LOOK_SECONDS, SHARE, Thread, Watchdog, held_up, threads_of
from kvlitmus.conformance.isolation.worker_pool import Limits, Maker, WorkerPool
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import STORE_CONFIGS
from kvlitmus.conformance.run.results import Item, ItemResult, Options, to_json
from kvlitmus.conformance.run.targets import resolve_target
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.support.frames import frames_now, theirs
from tests.support.processes import eventually

HERE = Path(__file__).parent / "support"
PAGE4 = Config(page_size=4)
OPTIONS = Options(reruns=0)
LIMITS = Limits(call_seconds=0.5, start_seconds=60.0, shrink_seconds=0.5)
START_SECONDS = 5.0
"""The limit for a start that hangs; the start of the suite itself, without byte code on a busy machine, is within."""
LONG = Item(kind="random", config=PAGE4, seed=1, ops=400)

HANGS = """
import gc, sys, time
from pathlib import Path
sys.path.append({here!r})
from hostile import Target, does
from kvlitmus.conformance.isolation.current_run import CurrentRun

def traced():
    return any(one.checker_type is not None for one in gc.get_objects() if type(one) is CurrentRun)

calls = []

def hang():
    calls.append(0)
    marks = [mark for mark in map(Path, {marks!r}) if not mark.exists()]
    if marks and len(calls) > 1 and not traced():  # not at the first call, nor when crash triage plays it again
        marks[0].touch()
        time.sleep(1_000)

target = Target(evict=does(hang))
"""
"""A cache whose ``evict`` hangs as often as there are marks, and never when the same is played again."""


def hangs(folder: Path, often: int) -> str:
    """The name of such a target."""
    marks = [str(folder / f"hung-{time}") for time in range(often)]
    (folder / "hangs.py").write_text(HANGS.format(here=str(HERE), marks=marks))
    return "hangs:target"


def run_all(
    name: str,
    items: Sequence[Item],
    state: Path,
    on_event: Callable[[Event], None] = lambda _: None,
    limits: Limits = LIMITS,
) -> tuple[list[ItemResult], list[str]]:
    """The results, and the kinds of events on the way."""
    kinds: list[str] = []

    def listen(event: Event) -> None:
        kinds.append(event.kind)
        on_event(event)

    results = list(run_items(resolve_target(name), items, OPTIONS, limits=limits, on_event=listen, state=state))
    return results, kinds


def run(name: str, item: Item, state: Path) -> tuple[ItemResult, list[str]]:
    """The result of one item, and the kinds of events on the way."""
    (result,), kinds = run_all(name, [item], state)
    return result, kinds


def worker_of_mine() -> int:
    """The one worker that this process has started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    (pid,) = (
        pid for pid in children if b"kvlitmus.conformance.isolation.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    return int(pid)


def without_time(result: ItemResult) -> object:
    return to_json(replace(result, seconds=0.0))


# -- the machine is to blame -----------------------------------------------------------------------


def test_a_worker_that_was_stopped_for_long_has_not_hung(tmp_path: Path) -> None:
    stopped: list[int] = []

    def stop_for_a_while(event: Event) -> None:
        if event.kind == "started" and event.index == 1:
            stopped.append(worker_of_mine())
            os.kill(stopped[0], signal.SIGSTOP)
            threading.Timer(3 * LIMITS.call_seconds, os.kill, (stopped[0], signal.SIGCONT)).start()

    first = replace(LONG, seed=2)  # before the first cache is made, a worker has longer
    results, kinds = run_all("specimen", [first, LONG], tmp_path / "state", stop_for_a_while)
    assert stopped
    assert "died" not in kinds
    assert without_time(results[1]) == without_time(run_item(specimen, LONG, OPTIONS))


STARVED = """
import os, subprocess, sys
from pathlib import Path
sys.path.append({here!r})
from hostile import Target, does

HOG = '''
import os, sys, time
from pathlib import Path
parent, all_processors = int(sys.argv[1]), os.sched_getaffinity(0)
os.sched_setaffinity(0, {{min(all_processors)}})
print(flush=True)
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    pass
for thread in map(int, os.listdir(f"/proc/{{parent}}/task")):
    os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
    os.sched_setaffinity(thread, all_processors)
Path({mark!r}).touch()
'''

def starve():
    if starve.hog is None:
        starve.hog = subprocess.Popen([sys.executable, "-c", HOG, str(os.getpid())], stdout=subprocess.PIPE)
        starve.hog.stdout.readline()
        for thread in map(int, os.listdir("/proc/self/task")):
            os.sched_setaffinity(thread, {{min(os.sched_getaffinity(0))}})
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))

starve.hog = None
target = Target(evict=does(starve))
"""
"""A cache that starts something which takes all of its processor for some seconds.

Both are of one session: where each session has a share of its own, a stranger could not starve it.
"""


def test_a_worker_that_gets_no_processor_has_not_hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "over"
    text = STARVED.format(here=str(HERE), mark=str(mark), seconds=4 * LIMITS.call_seconds)
    (tmp_path / "starved.py").write_text(text)
    result, kinds = run("starved:target", LONG, tmp_path / "state")
    assert mark.exists(), "the worker was done before it could run again"
    assert "died" not in kinds
    assert without_time(result) == without_time(run_item(specimen, LONG, OPTIONS))


# -- what is compiled at a first call -----------------------------------------------------------------

COMPILES = """
import time
from kvlitmus.conformance.specimen.cache import SpecimenTarget

class Compiles(SpecimenTarget):
    compiled = False

    def make(self, config):
        made = super().make(config)
        lawful = getattr(made, {method!r})

        def call(*args, **how):
            if not Compiles.compiled:
                time.sleep({seconds!r})
            Compiles.compiled = True
            return lawful(*args, **how)

        setattr(made, {method!r}, call)
        return made

target = Compiles()
"""
"""A cache whose first call of a method takes longer than any call may."""


@pytest.mark.parametrize(
    ("method", "config"), [("match", PAGE4), ("store_put", STORE_CONFIGS[0])], ids=["match", "store_put"]
)
def test_a_first_call_may_compile_what_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, config: Config
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "compiles.py").write_text(COMPILES.format(method=method, seconds=3 * LIMITS.call_seconds))
    item = replace(LONG, config=config, ops=30)
    result, kinds = run("compiles:target", item, tmp_path / "state")
    assert "died" not in kinds
    assert without_time(result) == without_time(run_item(specimen, item, OPTIONS))


# -- a hang that occurs once -------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_hang_that_does_not_occur_again_is_forgiven_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result, kinds = run(hangs(tmp_path, 1), LONG, tmp_path / "state")
    assert [kind for kind in kinds if kind in ("died", "doubted")] == ["died", "doubted"]
    assert without_time(result) == without_time(run_item(specimen, LONG, OPTIONS))


def test_the_second_hang_in_the_same_item_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results, kinds = run_all(hangs(tmp_path, 2), [LONG], tmp_path / "state", limits=replace(LIMITS, call_seconds=1.5))
    (result,) = results
    assert [kind for kind in kinds if kind in ("died", "doubted")] == ["died", "doubted", "died"]
    (finding,) = result.findings
    assert finding.rules == ["PORT-02"]
    assert "did not come back within 1.5 s (hangs.py, line" in finding.detail
    assert "it did not when the same was played once more in a new process" in finding.detail


@pytest.mark.parametrize("often", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_a_campaign_forgives_once_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, often: int) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = [Job(do="item", item=LONG, options=OPTIONS)]
    done: list[Done] = []
    with WorkerPool(resolve_target(hangs(tmp_path, often)), LIMITS, tmp_path / "state") as pool:
        runner = JobRunner(pool, 1)
        while jobs or runner.busy:
            done += runner.turn(lambda: jobs.pop() if jobs else None)
    (one,) = done
    assert (one.died is not None) == (often == 2)
    assert runner.deaths.count == often - 1


def test_a_cache_that_was_slow_to_make_once_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    slow = HANGS.replace("target = Target(evict=does(hang))", "from hostile import Anything, Parts, PROFILE, Specimen")
    slow += "target = Anything(lambda config: (hang(), Specimen(config, Parts(), PROFILE))[1])\n"
    (tmp_path / "slow.py").write_text(slow.format(here=str(HERE), marks=[str(tmp_path / "hung")]))
    limits = replace(LIMITS, start_seconds=START_SECONDS)
    (result,) = run_items(resolve_target("slow:target"), [LONG], OPTIONS, limits=limits, state=tmp_path / "state")
    assert without_time(result) == without_time(run_item(specimen, LONG, OPTIONS))


# -- a hang that the question ends -------------------------------------------------------------------

WAKES = """
import ctypes, sys
from pathlib import Path
sys.path.append({here!r})
from hostile import Target, does

def sleep():
    ctypes.PyDLL(None).pause()  # comes back when there is a signal, as careless C code does
    Path({mark!r}).touch()

target = Target(evict=does(sleep))
"""


def test_a_worker_that_is_asked_where_it_is_goes_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "went on"
    (tmp_path / "wakes.py").write_text(WAKES.format(here=str(HERE), mark=str(mark)))
    limits = replace(LIMITS, start_seconds=START_SECONDS)  # it hangs at once, when the limit is that of a start
    (result,), _ = run_all("wakes:target", [LONG], tmp_path / "state", limits=limits)
    assert not mark.exists()
    (finding,) = result.findings
    assert finding.call.startswith("evict(")
    assert "(wakes.py, line 8 in sleep)" in finding.detail


# -- parts -------------------------------------------------------------------------------------------


def counted(pid: int, seconds: float) -> float:
    """What counts of so many seconds."""
    watchdog = Watchdog(pid)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.05)
        watchdog.look()
    return watchdog.look()


def test_sleep_counts_and_being_stopped_hardly() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        began, watchdog = time.monotonic(), Watchdog(child.pid)
        eventually(lambda: watchdog.look() > 0.4, "any count of a sleep", every=0.05)
        slept, seconds = watchdog.look(), time.monotonic() - began
        child.send_signal(signal.SIGSTOP)
        stopped = counted(child.pid, seconds)
        child.kill()
    assert 0 < stopped < 0.5 * slept


def test_a_supervisor_that_did_not_look_counts_little() -> None:
    watchdog = Watchdog(os.getpid())
    time.sleep(4 * LOOK_SECONDS)
    assert 0 < watchdog.look() <= LOOK_SECONDS


def test_progress_renews_patience() -> None:
    watchdog = Watchdog(os.getpid())
    time.sleep(0.1)
    assert watchdog.look() > 0
    watchdog.renew()
    assert watchdog.spent == 0


SLEEPS = Thread("S", ran=1.0, waited=1.0, turns=10)
READY = SLEEPS._replace(state="R")


@pytest.mark.parametrize(
    ("before", "now", "held"),
    [
        (SLEEPS, SLEEPS, 0.0),  # sleeps, or waits for a lock
        (READY, READY._replace(ran=1.1), 0.0),  # runs all the time
        (READY, READY, 0.1),  # has waited all the time
        (READY, READY._replace(ran=1.02), 0.08),  # was put aside and has had no turn since
        (SLEEPS, READY, 0.0),  # has woken just now
        (READY, READY._replace(turns=11), 0.0),  # ran and woke again: what it waited is added up
        (SLEEPS, SLEEPS._replace(waited=1.06, turns=12), 0.06),  # has waited in between
        (SLEEPS, SLEEPS._replace(waited=9.0, turns=11), 0.1),  # no more than all of it
        (SLEEPS, SLEEPS._replace(state="T"), 0.1),  # stopped
        (SLEEPS, SLEEPS._replace(state="D"), 0.1),  # waits for a disk
        (Thread("R"), Thread("R"), 0.0),  # runs or waits: the system doesn't tell
    ],
)
def test_time_that_a_thread_was_held_up(before: Thread, now: Thread, held: float) -> None:
    assert held_up({"1": before}, {"1": now}, 0.1) == pytest.approx(held)
    assert held_up({"1": before, "2": SLEEPS}, {"1": now, "2": SLEEPS}, 0.1) == pytest.approx(held)
    assert held_up({}, {"1": now}, 0.1) == (0.1 if now.state in "TD" else 0.0), "nothing is known of before"


def test_a_share_of_the_time_always_counts() -> None:
    assert 0 < SHARE < 1
    assert threads_of(2**30) == {}


# -- who waits is told -------------------------------------------------------------------------------


def test_a_hang_is_told_while_it_lasts_and_who_wants_one_cause_does_not_wait_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call, and the making of a cache: both are told now and then, and the second wait is a short one."""
    told: list[tuple[str, str]] = []
    monkeypatch.chdir(HERE)
    monkeypatch.setattr(process, "WAIT_SECONDS", 0.1)
    limits = replace(LIMITS, again_seconds=0.25, on_wait=lambda *words: told.append(words))
    waits: list[float] = []
    play = CrashTriage.play

    def noted(self: CrashTriage, item: Item, options: Options, ops: Sequence[Op], seconds: float) -> Trial:
        waits.append(seconds)
        return play(self, item, options, ops, seconds)

    monkeypatch.setattr(CrashTriage, "play", noted)
    ref = resolve_target("hostile:hangs_asleep")
    (result,) = run_items(ref, [LONG], OPTIONS, limits=limits, state=tmp_path / "state")
    assert [one.rules for one in result.findings] == [["PORT-02"]]
    assert waits and max(waits) <= 0.25 < LIMITS.call_seconds
    assert any(option == "--timeout" and text.endswith(", limit 0.5 s") for text, option in told)

    limits = replace(limits, call_seconds=0.25, start_seconds=1.0)
    with WorkerPool(
        resolve_target("hostile:make_hangs"), replace(limits, start_seconds=60.0), tmp_path / "state"
    ) as pool:
        maker = Maker(pool)
        assert maker.worker is not None
        maker.worker.start_seconds = 1.0
        told.clear()
        first, second = maker.make(PAGE4), maker.make(PAGE4)
    assert "within 1 s" in first["failed"] and "within 0.25 s" in second["failed"]
    assert told[0][0].startswith("waiting for the first cache: ") and told[0][1] == "--start-timeout"


def test_what_is_waited_for_is_told_seldom() -> None:
    told: list[tuple[str, str]] = []
    worker = Process.__new__(Process)
    worker.watchdog, worker.on_wait, worker.told_waiting = Watchdog(os.getpid()), lambda *words: told.append(words), 0.0
    worker.place, worker.made = "cache.py, line 12 in evict", True
    for second in (*range(90), *range(6)):  # then there is progress, and the next call hangs, too
        worker.watchdog.spent = float(second)
        worker.tell_waiting(90.0, "--start-timeout")
    assert [int(text.split(": ")[1].split(" s")[0]) for text, _ in told] == [5, 10, 20, 40, 80, 5]
    assert told[0] == ("waiting for cache.py, line 12 in evict: 5 s so far, limit 90 s", "--start-timeout")


def test_where_a_thread_is_now() -> None:
    assert theirs(frames_now(threading.get_ident())).startswith("test_stalls.py, line ")
    assert theirs(frames_now(None)) == ""
