"""Worker processes: spread, watched, killed; what dies in one costs its item and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kvlitmus.conformance.isolation import supervisor
from kvlitmus.conformance.isolation.process import innermost
from kvlitmus.conformance.isolation.supervisor import Event, Limits, TargetError, probe, run_items
from kvlitmus.conformance.isolation.worker_pool import WorkerPool, probe_in
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import items as plan_items
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options, to_json
from kvlitmus.conformance.run.targets import UnknownTarget, known_targets, resolve_target
from kvlitmus.conformance.specimen.cache import target as specimen
from tests.support.night import by_turns
from tests.support.processes import LIMIT, eventually, runs

HERE = Path(__file__).parent / "support"
PAGE4 = Config(page_size=4)
OPTIONS = Options(reruns=0)
LIMITS = Limits(call_seconds=0.5, start_seconds=60.0, shrink_seconds=0.3)
START_SECONDS = 5.0
"""The limit for a start that hangs; the start of the suite itself, without byte code on a busy machine, is within."""


ELDER: set[int] = set()
"""Children that this process had before the test: other tests keep some for a whole session."""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets of these tests are importable from the current folder."""
    monkeypatch.chdir(HERE)
    ELDER.clear()
    ELDER.update(own_workers())


def seeds(many: int, ops: int = 120) -> list[Item]:
    return [Item(kind="random", config=PAGE4, seed=seed, ops=ops) for seed in range(many)]


def run(
    name: str, items: Sequence[Item], state: Path, *, jobs: int = 2, limits: Limits = LIMITS
) -> tuple[list[ItemResult], list[Event]]:
    events: list[Event] = []
    found = run_items(
        resolve_target(name), items, OPTIONS, jobs=jobs, limits=limits, on_event=events.append, state=state
    )
    results = list(found)
    assert [result.item for result in results] == [item.id for item in items]
    assert not state.exists()  # nothing is left on disk
    assert not own_workers()  # nor running
    return results, events


def own_workers() -> list[int]:
    """Children of this process that are still there, dead or alive, and were not there before the test."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in map(int, children) if pid not in ELDER]


def without_time(result: ItemResult) -> object:
    return to_json(replace(result, seconds=0.0))


def findings(results: Sequence[ItemResult]) -> list[Finding]:
    return [finding for result in results for finding in result.findings]


def test_who_was_asked_what_it_is_plays_the_first_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that is slow to import is imported once where one worker is enough."""
    monkeypatch.chdir(tmp_path)
    counted = "from kvlitmus.conformance.specimen.cache import target as target\nopen('loads', 'a').write('x')\n"
    (tmp_path / "counted.py").write_text(counted)
    ref = resolve_target("counted")
    with WorkerPool(ref, LIMITS, tmp_path / "state") as pool:
        assert probe_in(pool).configs
        results = list(run_items(ref, seeds(2, 20), OPTIONS, limits=LIMITS, pool=pool))
    assert [one.error for one in results] == ["", ""] and (tmp_path / "loads").read_text() == "x"
    assert not (tmp_path / "state").exists()


# -- results -----------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", by_turns([1, 3], every=2))
def test_results_are_those_of_one_process_in_the_order_of_the_items(tmp_path: Path, jobs: int) -> None:
    items = [*seeds(5), *plan_items([PAGE4], specimen.profile, steps=0)[:6]]
    results, events = run("specimen", items, tmp_path / "state", jobs=jobs)
    assert [without_time(one) for one in results] == [without_time(run_item(specimen, one, OPTIONS)) for one in items]
    assert sorted(event.index for event in events if event.kind == "finished") == list(range(len(items)))
    assert {event.index for event in events if event.kind == "started"} == set(range(len(items)))


def test_probe_tells_what_a_target_is() -> None:
    info = probe(resolve_target("specimen"))
    assert info.profile == specimen.profile
    assert {"pool", "tree", "inspect"} <= info.capabilities["page=4 lru"]
    assert info.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert not info.errors


def test_no_items_need_no_worker(tmp_path: Path) -> None:
    assert run("no_such_module:target", [], tmp_path / "state") == ([], [])


# -- targets that can't be judged ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no_such_module:target", "there is no module 'no_such_module' here or where Python looks"),
        (
            "hostile:no_such_target",
            "no 'no_such_target'; did you mean 'Target'; its targets: changes_argument",
        ),
        ("hostile:profile_wrong", "must be a Profile (got dict)"),
        ("hostile:profile_fields_wrong", "profile.misuse"),
        ("hostile:endless", "a target must have make(config)"),
        ("exits_on_import:target", "exit status 6; it printed: last words"),
        ("raises_on_import:target", "SystemExit: \\x1b[2J"),
    ],
)
def test_a_target_that_cannot_be_loaded_is_one_error(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "exits_on_import.py").write_text("import os, sys\nprint('last words')\nos._exit(6)\n")
    (tmp_path / "raises_on_import.py").write_text("raise SystemExit('\\x1b[2J')\n")
    if "_on_import" in name:
        monkeypatch.chdir(tmp_path)
    asks = said_of_loading(name, tmp_path, 60.0)
    for said in asks if name == BY_A_RUN else [next(asks)]:
        assert text in said
        assert said.isprintable()
    assert not own_workers()


BY_A_RUN = "exits_on_import:target"
"""Of this one a run is asked too: all that is said of a target is what its worker said when it loaded it."""


def test_a_target_that_hangs_on_import_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hangs_on_import.py").write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.chdir(tmp_path)
    seconds, said = START_SECONDS, list(said_of_loading(HANGS, tmp_path, START_SECONDS))
    # On a busy machine the import may not have begun by then: it is given longer.
    while not all("(hangs_on_import.py, line 2" in one for one in said):
        seconds *= 4
        assert seconds < LIMIT
        said = list(said_of_loading(HANGS, tmp_path, seconds))
    assert all(f"did not come back within {seconds:g} s" in one for one in said)
    assert not own_workers()


HANGS = "hangs_on_import:target"


def said_of_loading(name: str, folder: Path, seconds: float) -> Iterator[str]:
    """What is said of a target that can't be loaded, by a look at it and by a run."""
    limits = replace(LIMITS, start_seconds=seconds)
    for ask in (
        lambda: probe(resolve_target(name), limits=limits),
        lambda: run(name, seeds(3), folder, limits=limits),
    ):
        with pytest.raises(TargetError) as caught:
            ask()
        yield str(caught.value)


@pytest.mark.parametrize("name", by_turns(["makes_none", "make_raises", "make_dies", "make_hangs"], every=2))
def test_a_target_that_can_make_no_cache_is_one_error(name: str) -> None:
    with pytest.raises(TargetError, match="no cache could be made"):
        probe(resolve_target(f"hostile:{name}"), limits=replace(LIMITS, start_seconds=START_SECONDS))


@pytest.mark.parametrize("how", ["raise TypeError('no')", "import os; os._exit(3)"])
def test_where_some_configurations_are_declined_and_none_can_be_made_that_is_one_error(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "    if config.page_size > 1:\n        raise Unsupported('pages of one')\n    " + how
    (tmp_path / "picky.py").write_text(
        "from kvlitmus.conformance.ports import Profile, Unsupported\nprofile = Profile()\n"
        f"def make(config):\n{lines}\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TargetError, match=r"no cache could be made; \[page=1.*the target declines \d+ other"):
        probe(resolve_target("picky"), limits=LIMITS)


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="can't be started"):
        probe(resolve_target("specimen", python=str(tmp_path / "python")))


def test_names_of_targets() -> None:
    assert {"specimen", "reference"} <= set(known_targets())
    with pytest.raises(UnknownTarget, match="did you mean 'specimen'"):
        resolve_target("Specimn")
    with pytest.raises(UnknownTarget, match="there is no target"):
        resolve_target("\x1b[2J; rm -rf:x y")
    with pytest.raises(UnknownTarget, match=f"did you mean 'exec:{sys.executable}'"):
        resolve_target(sys.executable)
    assert resolve_target("a.b:c.d").attribute == "c.d"


def test_a_missing_environment_names_the_command_that_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvlitmus.conformance.run.targets.checkout_peers", lambda: tmp_path)
    monkeypatch.setenv("KVLITMUS_PEERS", str(tmp_path))
    with pytest.raises(UnknownTarget, match=r"tools/peers sglang-0\.5\.13\.post1"):
        resolve_target("sglang-0.5.13.post1")


# -- deaths ------------------------------------------------------------------------------------

DEATHS = {
    "hangs_asleep": ("evict(", "did not come back within 0.5 s (hostile.py, line "),
    "hangs_busy": ("evict(", "did not come back within 0.5 s (hostile.py, line "),
    "hangs_in_c": ("evict(", "did not come back within 0.5 s (hostile.py, line "),
    "hangs_in_view": ("", "(in view(), which looks at the cache after it)"),
    "exits": ("insert(", "ended the process with exit status 7"),
    "exits_in_hashes": ("page_hashes(", "ended the process with exit status 7"),
    "crashes": ("match(", "ended the process by SIGSEGV"),
    "kills_itself": ("end(", "ended the process by SIGKILL"),
    "closes_descriptors": ("insert(", "closed descriptors that are not its own, those of the worker"),
    "leaves_a_child": ("evict(", "ended the process with exit status 3"),
}


AT_NIGHT = {"exits", "hangs_busy", "hangs_asleep", "hangs_in_view", "exits_in_hashes", "kills_itself"}
"""Deaths of which another one of the same kind is tried by day."""


@pytest.mark.parametrize(
    ("name", "call", "text"),
    [
        pytest.param(name, *told, id=name, marks=[pytest.mark.nightly] * (name in AT_NIGHT))
        for name, told in DEATHS.items()
    ],
)
def test_a_deadly_call_is_a_finding_and_the_rest_is_judged(name: str, call: str, text: str, tmp_path: Path) -> None:
    items = seeds(1)
    results, events = run(f"hostile:{name}", items, tmp_path / "state")
    found = findings(results)
    assert found
    for finding in found:
        assert finding.rules == ["PORT-02"]
        assert finding.call == finding.calls[-1]
        assert finding.call.startswith(call)
        assert text in finding.detail
        assert finding.detail.isprintable()
    assert all(len(finding.schedule) < 120 for finding in found)  # cut; how much is shrunk is a matter of time
    assert all(result.steps > 30 for result in results)  # each item was judged, without the deadly method
    assert not any(result.error for result in results)
    assert sum(event.kind == "died" for event in events) == len(found)
    eventually(lambda: not [process for process in Path("/proc").glob("[0-9]*") if is_stray(process)])


def is_stray(process: Path) -> bool:
    """Whether this process is one of those that ``leaves_a_child`` leaves."""
    try:
        return (process / "cmdline").read_bytes() == b"sleep\x00600.125\x00"
    except OSError:
        return False


@pytest.mark.nightly
def test_the_schedule_of_a_death_kills_again(tmp_path: Path) -> None:
    results, _ = run("hostile:exits", seeds(1), tmp_path / "state")
    (finding,) = findings(results)
    again = Item(kind="schedule", config=PAGE4, schedule=tuple(finding.schedule))
    results, _ = run("hostile:exits", [again], tmp_path / "state")
    called = [one.call.partition("(")[0] for one in (finding, findings(results)[0])]
    assert called[0] == called[1]  # shrinking has more or less time


@pytest.mark.nightly
def test_the_schedule_of_a_death_is_shrunk_where_there_is_time(tmp_path: Path) -> None:
    results, _ = run("hostile:exits", seeds(1), tmp_path / "state", limits=replace(LIMITS, shrink_seconds=1000.0))
    (finding,) = findings(results)
    assert len(finding.schedule) <= 2  # of 120 operations


@pytest.mark.nightly
def test_a_method_that_killed_twice_is_not_called_any_more(tmp_path: Path) -> None:
    results, events = run("hostile:exits", seeds(5), tmp_path / "state", jobs=1)
    assert [len(result.findings) for result in results] == [1, 1, 0, 0, 0]
    assert sum(event.kind == "died" for event in events) == 2


@pytest.mark.nightly
def test_after_too_many_deaths_the_rest_is_not_run(tmp_path: Path) -> None:
    results, _ = run("hostile:exits", seeds(4), tmp_path / "state", jobs=1, limits=replace(LIMITS, deaths=1))
    assert len(findings(results)) == 1
    assert all("not run: 1 worker" in result.error for result in results[1:])


def test_a_cache_that_cannot_be_made_costs_its_configuration(tmp_path: Path) -> None:
    results, _ = run("hostile:make_dies", seeds(3), tmp_path / "state", jobs=1)
    assert "making a fresh cache" in results[0].error
    assert all(result.error == f"not run: {results[0].error}" for result in results[1:])


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hungry = tmp_path / "hungry.py"
    hungry.write_text(
        f"import sys; sys.path.append({str(HERE)!r})\n"
        "from hostile import Target, does\n"
        "target = Target(match=does(lambda: len(bytearray(600 << 20))))\n"
    )
    monkeypatch.chdir(tmp_path)
    results, _ = run("hungry:target", seeds(1), tmp_path / "state", limits=replace(LIMITS, memory_mb=500))
    (finding,) = findings(results)
    assert finding.rules == ["PORT-01"]
    assert "MemoryError" in finding.detail and "(a worker may use 500 MB: --memory)" in finding.detail


@pytest.mark.nightly
def test_a_worker_that_dies_under_a_limit_of_memory_is_told_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As C code does that doesn't look whether it got what it asked for."""
    (tmp_path / "careless.py").write_text(
        f"import ctypes, sys; sys.path.insert(0, {str(HERE)!r})\n"
        "from hostile import Target, does\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype = ctypes.c_void_p\n"
        "target = Target(match=does(lambda: ctypes.memset(libc.malloc(ctypes.c_size_t(1 << 40)) or 0, 0, 8)))\n"
    )
    monkeypatch.chdir(tmp_path)
    results, _ = run("careless:target", seeds(1), tmp_path / "state", limits=replace(LIMITS, memory_mb=500))
    (finding,) = findings(results)
    assert finding.rules == ["PORT-02"]
    assert "ended the process by SIGSEGV" in finding.detail and "may use 500 MB of memory (--memory)" in finding.detail


def test_an_import_that_needs_more_memory_is_told_with_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.py").write_text("bytearray(600 << 20)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TargetError, match=r"MemoryError.*\(a worker may use 500 MB: --memory\)"):
        probe(resolve_target("large:target"), limits=replace(LIMITS, memory_mb=500))


# -- noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", by_turns(["prints", "child_prints", "patches_the_world", "starts_threads"], every=2))
def test_noise_changes_no_result(name: str, tmp_path: Path) -> None:
    items = seeds(2, ops=40 if name == "child_prints" else 120)
    results, events = run(f"hostile:{name}", items, tmp_path / "state", jobs=1)
    assert [without_time(one) for one in results] == [without_time(run_item(specimen, one, OPTIONS)) for one in items]
    printed = [event.text for event in events if event.kind == "output"]
    assert bool(printed) == ("prints" in name)
    assert all(text.isprintable() and len(text) <= 500 for text in printed)


# -- interruption --------------------------------------------------------------------------------

INTERRUPTED = """
import json, sys
from kvlitmus.conformance.isolation import supervisor
from kvlitmus.conformance.isolation.supervisor import run_items
from kvlitmus.conformance.run.targets import resolve_target
from kvlitmus.conformance.run.results import Item, Options, to_json
from kvlitmus.conformance.ports import Config
items = [Item(kind="random", config=Config(), seed=seed, ops=200) for seed in range(100_000)]
supervisor.ALONE_SECONDS = 0.0
results = []
try:
    for result in run_items(resolve_target("specimen"), items, Options(), jobs=2):
        results.append(to_json(result))
        if len(results) == 3:
            print("three", flush=True)
except KeyboardInterrupt:
    print(json.dumps([result["item"] for result in results]))
    sys.exit(130)
"""


def test_an_interrupt_leaves_what_is_finished_and_no_process(tmp_path: Path) -> None:
    paths = os.pathsep.join(resolve_target("specimen").roots)
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "three\n"
        workers = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        assert len(workers) == 2
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
    assert child.returncode == 130, err
    names = json.loads(out)
    assert len(names) >= 3
    assert names[:3] == [f"random:seed={seed} [page=1 lru]" for seed in range(3)]
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert not (tmp_path / ".kvlitmus").exists()


@pytest.mark.nightly
def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    paths = os.pathsep.join(resolve_target("specimen").roots)
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        workers = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        child.kill()
    assert len(workers) == 2
    eventually(lambda: not any(runs(pid) for pid in workers), "an end of the workers")


def test_closing_the_iterator_stops_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "ALONE_SECONDS", 0.0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    found = run_items(resolve_target("specimen"), seeds(50), OPTIONS, jobs=2, state=tmp_path / "state")
    next(found)
    assert len(own_workers()) == 2
    found.close()  # type: ignore[attr-defined]
    assert not own_workers()
    assert not (tmp_path / "state").exists()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_running_items_are_on_disk(tmp_path: Path) -> None:
    state = tmp_path / "state"
    found = run_items(resolve_target("specimen"), seeds(50), OPTIONS, jobs=1, state=state)
    next(found)
    (file,) = state.glob("*/worker-1.item")
    assert json.loads(file.read_text())["item"]["kind"] == "random"
    (plays,) = state.glob("*/worker-1.plays")
    assert plays.read_bytes()[:1] in (b"M", b"P")
    found.close()  # type: ignore[attr-defined]


@pytest.mark.nightly
def test_a_slow_listener_is_not_held_against_the_workers(tmp_path: Path) -> None:
    found = run_items(resolve_target("hostile:prints"), seeds(4), OPTIONS, jobs=2, limits=LIMITS, state=tmp_path / "s")
    for result in found:
        assert not result.findings
        time.sleep(0.7)


# -- parts -------------------------------------------------------------------------------------


def test_the_innermost_place_of_a_dump() -> None:
    dump = """Current thread 0x1 (most recent call first):
  File "/x/kvlitmus/conformance/isolation/worker.py", line 140 in beat
  File "/lib/threading.py", line 982 in run

Thread 0x2 (most recent call first):
  File "/home/me/cache.py", line 12 in evict
  File "/x/kvlitmus/conformance/checker/checker.py", line 150 in call
  File "/x/kvlitmus/conformance/isolation/worker.py", line 200 in serve
"""
    assert innermost(dump) == "cache.py, line 12 in evict"
    assert innermost("") == innermost("File") == ""
    # A lock that is waited for in Python's library: the line of the cache is what helps.
    waiting = dump.replace(
        '  File "/home', '  File "/usr/lib/python3.11/threading.py", line 320 in wait\n  File "/home'
    )
    assert innermost(waiting) == "cache.py, line 12 in evict"
