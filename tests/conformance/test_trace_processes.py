"""The replay of a trace in processes of its own: interrupts, and targets with another Python."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.record import ROOT
from benchmarks.trace import command
from kvlitmus.conformance.run.targets import TargetRef, roots
from tests.conformance.test_trace import PINNED, SMALL

SLOW = """
import time
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import Parts

class Slow(Specimen):
    def match(self, key):
        if self.config.pages == 40:
            time.sleep(0.5)
        return super().match(key)

target = SpecimenTarget(Parts(cache=Slow))
"""


def interrupt_after(first: Callable[[str], bool], arguments: list[str], where: Path) -> tuple[int, str, str]:
    """Run the command in a process of its own, and interrupt it when it has printed a certain line."""
    child = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=where,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *roots()])},
    )
    assert child.stdout is not None
    seen = []
    for line in child.stdout:
        seen.append(line)
        if first(line):
            child.send_signal(signal.SIGINT)
            break
    out, err = child.communicate()
    return child.returncode, "".join(seen) + out, err


def test_a_real_interrupt_ends_a_real_process_with_the_table_so_far(tmp_path: Path) -> None:
    (tmp_path / "slow_cache.py").write_text(SLOW)
    arguments = [
        sys.executable,
        "-m",
        "benchmarks.trace",
        str(SMALL),
        "--capacity",
        "20,40",
        "--target",
        "slow_cache:target",
    ]
    code, out, err = interrupt_after(lambda line: line.split()[:1] == ["20"], arguments, tmp_path)
    assert code == 130, err
    assert out.splitlines()[-1].split()[:2] == ["20", "529"]
    assert "Traceback" not in err and "interrupted" in err


@pytest.fixture
def other_python(tmp_path: Path) -> str:
    """Another interpreter: a script that starts this one."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return str(python)


def there(name: str, python: str) -> TargetRef:
    module, _, attribute = name.partition(":")
    return TargetRef(name=name, module=module, attribute=attribute, python=python, roots=roots())


def arguments_for(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_a_target_with_a_python_of_its_own_is_replayed_there(
    other_python: str, capfd: pytest.CaptureFixture[str]
) -> None:
    args = arguments_for(str(SMALL), "--json", "--capacity", "40,80", "--variant", "all-leaf", "--target", "reference")
    assert command.run_there(args, there("reference", other_python)) == 0
    assert [tuple(row.values()) for row in json.loads(capfd.readouterr().out)] == list(PINNED["all-leaf"][1:3])
    assert command.run_there(arguments_for(str(SMALL)), there("no.such:thing", other_python)) == 2
    assert "there is no module 'no.such'" in capfd.readouterr().err
    assert command.run_there(arguments_for(str(SMALL)), there("specimen", "/no/such/python")) == 2
    assert "/no/such/python can't be run" in capfd.readouterr().err


def test_an_interrupt_reaches_the_other_python_once(other_python: str, tmp_path: Path) -> None:
    (tmp_path / "slow_cache.py").write_text(SLOW)
    script = f"""
        import argparse, sys
        from kvlitmus.conformance.run.targets import TargetRef, roots
        from benchmarks.trace import command
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        args = parser.parse_args([{str(SMALL)!r}, "--capacity", "20,40"])
        where = dict(module="slow_cache", attribute="target", python={other_python!r}, roots=roots())
        sys.exit(command.run_there(args, TargetRef(name="slow_cache:target", **where)))
    """
    arguments = [sys.executable, "-c", textwrap.dedent(script)]
    code, out, err = interrupt_after(lambda line: line.split()[:1] == ["20"], arguments, tmp_path)
    assert code == 130, err
    assert out.splitlines()[-1].split()[:2] == ["20", "529"]
    assert "Traceback" not in err and err.count("interrupted") == 1
