"""CrossHair, asked about lemmas: one process imports it and them, and a copy of that process reads each lemma.

So every lemma is read in a process of its own, as if CrossHair's command were started for it, and what all of them
need is imported once.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from tests.support.processes import started

ROOT = Path(__file__).resolve().parents[3]
MODULES = (
    "prefix.lemmas",
    "prefix.lock_lemmas",
    "prefix.tree_lemmas",
    "prefix.fetch_lemmas",
    "prefix.prefetch_lemmas",
    "components.lemmas",
    "components.fetch_lemmas",
    "sparse.lemmas",
    "ranks.lemmas",
)
"""The modules of ``tests.proofs`` that hold lemmas."""

SECONDS = 900
"""CPU seconds that one lemma may take, for a machine much slower than any we know; the slowest takes thirty here."""

OPTIONS = ("--report_all", "--analysis_kind", "asserts", "--per_condition_timeout", str(SECONDS))

FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)
REMEMBERED = 10_000
"""Of so many functions it is remembered which conditions they have; some are made anew on each path."""

Ask = Callable[[str], str]
"""What CrossHair says about one lemma, by its module in ``tests.proofs`` and its name: ``lemmas.NAME``."""


@contextmanager
def reader() -> Iterator[Ask]:
    """Whom to ask, for a while."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", __name__]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        asked, answers = process.stdin, process.stdout
        assert asked is not None and answers is not None

        def ask(name: str) -> str:
            assert process.poll() is None, f"the process that reads lemmas has ended ({process.returncode})"
            asked.write(name + "\n")
            asked.flush()
            said: str = json.loads(answers.readline())
            return said

        yield ask


def confirmed(said: str) -> None:
    """``AssertionError`` unless CrossHair has said of one lemma, and of nothing else, that it holds on all paths."""
    assert "Confirmed over all paths" in said, said
    assert said.count("info:") == 1 and "error:" not in said, said


def found_and_real(said: str, planted: Callable[..., object]) -> None:
    """``AssertionError`` unless CrossHair has named arguments for a planted slip with which it fails in Python, too."""
    found = re.search(rf"when calling {planted.__name__}(\(.*\))", said)
    assert found, said
    arguments = ast.literal_eval(found.group(1))
    try:
        planted(*arguments)
    except AssertionError:
        return
    raise AssertionError(f"{planted.__name__}{arguments} fails for CrossHair alone")


def serve() -> None:
    """Read the lemmas that are named on the lines of the input, each in a copy of this process."""
    from crosshair.condition_parser import CompositeConditionParser
    from crosshair.main import prefer_pure_python_imports

    remember_conditions(CompositeConditionParser)
    mend_ranges_and_sets()
    with prefer_pure_python_imports():  # as CrossHair itself imports them
        for module in MODULES:
            importlib.import_module(f"tests.proofs.{module}")
    for line in sys.stdin:
        there, here = os.pipe()
        child = os.fork()
        if not child:
            os.close(there)
            os.dup2(here, sys.stdout.fileno())
            read(f"tests.proofs.{line.strip()}")
        os.close(here)
        with os.fdopen(there, encoding="utf-8") as said:
            text = said.read()
        os.waitpid(child, 0)
        print(json.dumps(text), flush=True)


def remember_conditions(parser: Any) -> None:
    """Of each function CrossHair looks once which conditions it has, and not again at every call of it.

    It reads them from the function's source and signature, so they are the same each time; to work them out takes two
    thirds of the time that a lemma takes.
    """
    work_out = parser.get_fn_conditions
    known: dict[tuple[int, int], tuple[object, object]] = {}

    def get_fn_conditions(self: Any, told: Any) -> Any:
        function = told.descriptor
        if told.context is not None or not isinstance(function, FUNCTIONS):
            return work_out(self, told)
        key = id(self), id(function)
        if key not in known:
            if len(known) >= REMEMBERED:
                known.clear()
            known[key] = function, work_out(self, told)  # what is kept, keeps its number
        return known[key][1]

    parser.get_fn_conditions = get_fn_conditions


def mend_ranges_and_sets() -> None:
    """CrossHair's own ranges can be asked whether they are empty, and its own sets for what several have in common.

    Its range answers that with a symbol, where Python wants a truth value; and an ``intersection`` that is called on
    the class, as functions that are handed any sets do, takes no sets but Python's.
    """
    from crosshair.core import register_patch
    from crosshair.libimpl.builtinslib import SymbolicRange

    def has_some(one: Any) -> bool:
        return True if len(one) > 0 else False  # noqa: SIM210 - the comparison alone is a symbol

    def in_common(first: Any, *others: Any) -> Any:
        for other in others:
            first = frozenset([one for one in first if one in other])
        return first

    SymbolicRange.__bool__ = has_some
    register_patch(frozenset.intersection, in_common)


def read(target: str) -> None:
    """Say what CrossHair says about a function, and end."""
    from crosshair.main import main

    code = 2
    try:
        with redirect_stderr(sys.stdout):
            main(["check", *OPTIONS, target])
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
