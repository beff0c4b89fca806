"""How commands end: by signals, with output that can't be written, with a killed parent; nobody is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.isolation import worker_pool as pool
from kvlitmus.conformance.support import ending, files
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.mutants.run import Effort, run_all
from tests.conformance.support.command_line import BROKEN, ONE, Capture, command
from tests.conformance.test_trace import SMALL as SMALL_TRACE
from tests.conformance.test_trace_processes import SLOW
from tests.support.processes import eventually, run, started

HERE = Path(__file__).parent / "support"
SIGNALS = (signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.nightly))
ALL_SIGNALS = (*SIGNALS, pytest.param(signal.SIGINT, marks=pytest.mark.nightly))
"""They are handled alike; SIGINT by day in test_cli_process.py."""
FIRST = next(iter(all_mutants()))
"""The mutant that is played first."""


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


@contextmanager
def begun(*words: str, until: str, **more: Any) -> Iterator[subprocess.Popen[Any]]:
    """The command as a process that has printed a line with this text, and has its default signals."""
    with started(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as process:
        assert process.stdout is not None
        line = "x"
        while line and until not in line:
            line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        yield process


def children(pid: int) -> list[int]:
    """The children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pids: Sequence[int]) -> bool:
    """Whether none of these processes is there, except as one that nobody has waited for."""
    states = []
    for pid in pids:
        try:
            states.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            states.append("X")
    return all(state in "ZX" for state in states)


def workers(process: subprocess.Popen[Any], many: int = 1) -> list[int]:
    """The workers of a command, once there are so many."""
    eventually(lambda: len(children(process.pid)) >= many, "workers")
    return children(process.pid)


# -- signals ---------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("number", SIGNALS)
def test_whoever_ends_a_run_gets_its_report(number: signal.Signals) -> None:
    with begun("run", "--jobs", "2", "--report", "r.json", "--steps", "1000000", until="judging ") as process:
        mine = workers(process, 2)
        for _ in range(3):  # it may be said more than once
            process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert f"exit {128 + number}: {ending.INTERRUPTED}" in out
    data = json.loads(Path("r.json").read_text())
    assert (data["partial"], data["exit_code"]) == (True, 128 + number)
    assert gone(mine)


@pytest.mark.parametrize("number", ALL_SIGNALS)
def test_whoever_ends_a_campaign_gets_its_summary(number: signal.Signals) -> None:
    words = ("fuzz", *ONE[:2], "--workers", "1", "--for", "1h", "--no-canary", "--report", "r.json")
    with begun(*words, until="fuzzing ") as process:
        eventually(lambda: list(Path(".kvlitmus/fuzz/specimen/corpus").glob("*.jsonl")), "a kept schedule")
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == 128 + number, err
    data = json.loads(Path("r.json").read_text())
    assert (data["interrupted"], data["exit_code"]) == (True, 128 + number)


@pytest.mark.parametrize("number", ALL_SIGNALS)
def test_whoever_ends_mutants_gets_what_was_found_and_no_worker_is_left(number: signal.Signals) -> None:
    """The signal goes to the parent alone."""
    with begun("mutants", "--jobs", "2", until=FIRST) as process:
        mine = workers(process, 2)
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert "interrupted after " in out and re.search(r"mutants: \d+/\d+ killed", out)
    assert gone(mine)


TRACE = (
    {
        "kind": "kvlitmus tape",
        "format": 1,
        "config": {"page_size": 1, "pages": 8},
        "ports": ["pool"],
    },
    {"looks": {"available": 8}},
    {"call": "alloc", "args": [1], "answer": [1], "looks": {"available": 7}},
    {"call": "alloc", "args": [1], "answer": [2], "looks": {"available": 6}},
)


@pytest.mark.parametrize("number", ALL_SIGNALS)
def test_whoever_ends_a_check_gets_the_verdict_up_to_there(number: signal.Signals) -> None:
    """The rest of the trace has not been written yet."""
    with started(
        command("check", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps(line) + "\n" for line in TRACE))
        process.stdin.flush()
        assert process.stdout.readline().startswith("judging ")
        still_open, process.stdin = process.stdin, None  # communicate() would close it, and the trace would end
        process.send_signal(number)
        out, err = process.communicate()
        still_open.close()
    assert process.returncode == 128 + number, err
    assert f"exit {128 + number}: {ending.INTERRUPTED}" in out


@pytest.mark.nightly
def test_a_replay_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    main(["run", BROKEN, *ONE, "--steps", "0", "--rule", "LOCK-02"])
    file = next(Path(".kvlitmus/failures").iterdir())
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    with begun("replay", str(file), "--target", "hostile:make_hangs", until="replaying ") as process:
        mine = workers(process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert (process.returncode, err) == (143, "kvlitmus: interrupted\n")
    assert gone(mine)


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_was_ignored_when_it_started_stays_ignored(number: signal.Signals) -> None:
    """As after ``nohup``, or in the background of a shell without job control."""
    ignoring = (
        f"import signal, os, sys; signal.signal({int(number)}, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    words = command("run", *ONE, "--steps", "250", "--no-litmus", "--report", "r.json")
    with started([sys.executable, "-c", ignoring, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        while "judging " not in process.stdout.readline():
            pass
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode in (0, 4), err
    assert json.loads(Path("r.json").read_text())["partial"] is False


# -- nobody is left --------------------------------------------------------------------------------


def test_mutants_that_are_killed_leave_no_worker() -> None:
    with begun("mutants", "--jobs", "2", until=FIRST) as process:
        mine = workers(process, 2)
        process.kill()
        process.wait()
        eventually(lambda: gone(mine), "the end of the workers")


def test_a_worker_that_never_lets_go_of_the_lock_does_not_outlive_its_supervisor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    with begun("run", "hostile:hangs_in_c", *ONE, "--timeout", "3600", "--steps", "1000", until="judging ") as process:
        (worker,) = workers(process)
        plays = "hangs" if sys.platform != "linux" else f"/proc/{worker}/wchan"
        eventually(lambda: asleep_in_pause(worker), f"a call of pause ({plays})")
        process.kill()
        process.wait()
        eventually(lambda: gone([worker]), "the end of the worker")


def asleep_in_pause(pid: int) -> bool:
    """Whether the main thread of a process is in the system call ``pause``, or the like of it."""
    number = Path(f"/proc/{pid}/syscall").read_text().split()[0]
    return number in ("34", "73")  # pause on x86-64, ppoll on others


CHILD = """
import os, sys, time
from kvlitmus.conformance.isolation.parent import Parent
parent = Parent(sys.argv[1])
print(os.getpid(), flush=True)
while True:
    {watch}
    time.sleep(0.02)
"""


@pytest.mark.parametrize(("told", "watch"), [("lasting", "pass"), ("passing", "parent.check()")])
def test_a_child_ends_with_its_parent_by_the_kernel_or_by_its_own_watch(told: str, watch: str) -> None:
    starter = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]]).wait()"
    words = [sys.executable, "-c", starter, CHILD.format(watch=watch), told]
    with started(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
        if told == "lasting" and sys.platform != "linux":
            os.kill(child, signal.SIGKILL)
        eventually(lambda: gone([child]), "the end of the child")


@pytest.mark.nightly
def test_an_interpreter_may_be_a_script_that_waits_for_the_real_one(tmp_path: Path) -> None:
    """Then the worker is not the supervisor's child."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n"{sys.executable}" "$@"\nexit $?\n')
    python.chmod(0o755)
    with begun("run", "--python", str(python), "--steps", "1000000", "--jobs", "1", until="judging ") as process:
        mine = workers(process)
        eventually(lambda: children(mine[0]), "the real worker")
        mine += children(mine[0])
        process.kill()
        process.wait()
        eventually(lambda: gone(mine), "the end of both")


def test_a_replay_in_another_python_ends_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "slow_cache.py").write_text(SLOW)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    script = f"""
import argparse, sys
from kvlitmus.conformance.run.targets import TargetRef, roots
from benchmarks.trace import command
parser = argparse.ArgumentParser()
command.add_arguments(parser)
args = parser.parse_args([{str(SMALL_TRACE)!r}, "--capacity", "20,40"])
where = dict(module="slow_cache", attribute="target", python={str(python)!r}, roots=roots())
sys.exit(command.run_there(args, TargetRef(name="slow_cache:target", **where)))
"""
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[2])}
    with started([sys.executable, "-c", script], stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        while process.stdout.readline().split()[:1] != ["20"]:
            pass
        mine = children(process.pid)
        process.kill()
        process.wait()
        eventually(lambda: mine and gone(mine), "the end of the replay")


@pytest.mark.nightly
def test_a_mutant_whose_worker_dies_has_failed_and_the_others_go_on() -> None:
    fates = []
    others = set(children(os.getpid()))  # a fixture of the session may have started some
    for fate in run_all(["lookup-pins", "any-order", "split-forgets-locks"], Effort(steps=200), jobs=1):
        fates.append(fate)
        if len(fates) == 1:
            eventually(lambda: set(children(os.getpid())) - others, "a worker")
            for pid in set(children(os.getpid())) - others:
                os.kill(pid, signal.SIGKILL)
    assert [fate.id for fate in fates] == ["lookup-pins", "any-order", "split-forgets-locks"]
    assert [bool(fate.error) for fate in fates] == [False, True, False]
    assert "SIGKILL" in fates[1].error and not fates[1].well


@pytest.mark.nightly
def test_mutants_need_no_shared_memory(tmp_path: Path) -> None:
    """Where ``/dev/shm`` can't be written to, semaphores can't be made."""
    (tmp_path / "sitecustomize.py").write_text(
        "import _multiprocessing\n"
        "def refuse(*_): raise OSError(30, 'Read-only file system')\n"
        "_multiprocessing.SemLock = refuse\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = run(command("mutants", "lookup-pins", "any-order", "--steps", "200", "--jobs", "2"), env=env)
    assert done.returncode == 0, done.stderr
    assert "mutants: 1/1 killed" in done.stdout


def test_what_a_killed_run_has_left_is_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    base = Path(".kvlitmus/running")
    with begun("run", "--steps", "1000000", "--jobs", "1", until="judging ") as process:
        mine = workers(process)
        process.kill()
        process.wait()
        eventually(lambda: gone(mine), "the end of the workers")
    (left,) = base.iterdir()
    (base / "mine").mkdir()
    with held(pool.Folder(base)) as running:
        assert left.exists(), "it may be about to be locked"
        for path in base.iterdir():
            os.utime(path, (1, 1))
        pool.sweep(base)
        assert not left.exists()
        assert running.path.exists(), "somebody has locked it"
        assert (base / "mine").exists(), "it isn't ours"


@contextmanager
def held(folder: pool.Folder) -> Iterator[pool.Folder]:
    try:
        yield folder
    finally:
        folder.remove()


# -- output ----------------------------------------------------------------------------------------

SMALL = ("run", *ONE, "--steps", "0", "--rule", "LOCK-02", "--report", "r.json")


RED = (*SMALL[:1], BROKEN, *SMALL[1:])


@pytest.mark.parametrize(
    ("how", "words", "code"),
    [
        ("full", ("rules",), 3),
        ("closed", RED, 1),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in (("full", SMALL, 3), ("closed", SMALL, 3), ("full", RED, 1), ("closed", ("rules",), 3))
        ),
    ],
)
def test_output_that_can_not_be_written_is_said_in_one_line(how: str, words: Sequence[str], code: int) -> None:
    redirect = ">/dev/full" if how == "full" else ">&-"
    done = run(["sh", "-c", f'exec "$@" {redirect}', "sh", *command(*words)])
    why = "No space left on device" if how == "full" else "it is closed"
    assert done.returncode == code
    assert done.stderr == f"kvlitmus: standard output can't be written: {why}\n"
    if words[0] == "run":
        assert json.loads(Path("r.json").read_text())["exit_code"] == (0 if code == 3 else 1), "the verdict is the same"


def test_all_descriptors_may_be_closed() -> None:
    done = run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command(*SMALL)])
    assert done.returncode == 3
    assert json.loads(Path("r.json").read_text())["exit_code"] == 0


def test_python_without_docstrings_is_refused_in_one_line() -> None:
    for words in (["-OO"], []):
        env = {**os.environ, **({} if words else {"PYTHONOPTIMIZE": "2"})}
        done = run([sys.executable, *words, "-m", "kvlitmus.conformance.cli", "run"], env=env)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1 and "(got -OO)" in done.stderr


@pytest.mark.parametrize(
    ("option", "target", "code"),
    [
        ("--report", BROKEN, 1),
        ("--junit", "specimen", 3),
        ("--markdown", BROKEN, 1),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in (("--report", "specimen", 3), ("--junit", BROKEN, 1), ("--markdown", "specimen", 3))
        ),
    ],
)
def test_a_report_that_can_not_be_written_is_said_and_what_is_said_is_the_exit_code(
    option: str, target: str, code: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be, before the run."""
    Path("file").write_text("")
    monkeypatch.setattr(files, "unwritable", lambda _: "")
    words = ["run", target, *ONE, "--steps", "0", "--rule", "LOCK-02", "--report", "good.json", "--report", "good.md"]
    assert main([*words, option, "file/folder/r.json"]) == code
    said = capsys.readouterr()
    assert f"exit {code}: " in said.out
    assert said.err == f"kvlitmus: {option} file/folder/r.json: can't be written: Not a directory\n"
    assert json.loads(Path("good.json").read_text())["exit_code"] == code
    assert f"Exit {code}: " in Path("good.md").read_text()


def test_a_campaigns_report_that_can_not_be_written_is_part_of_its_outcome(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").write_text("")
    monkeypatch.setattr(files, "unwritable", lambda _: "")
    words = ["fuzz", *ONE[:2], "--workers", "1", "--steps", "100", "--no-canary", "--report", "good.json"]
    assert main([*words, "--report", "file/folder/r.json"]) == 3
    said = capsys.readouterr().out
    assert "exit 3: " in said and "can't be written: file/folder/r.json: Not a directory" in said
    assert json.loads(Path("good.json").read_text())["exit_code"] == 3


def test_a_file_is_there_as_a_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("r.json").write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write(Path("r.json"), "after", lasting=True)
    assert Path("r.json").read_text() == "before"
    assert [path.name for path in Path().iterdir()] == ["r.json"]
