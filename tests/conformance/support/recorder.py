"""Recording runs of the suite with the logger of the docs, and judging what was recorded."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import describe, draw, table
from kvlitmus.conformance.history.arguments import JUDGED_PORTS
from kvlitmus.conformance.history.checker import TraceChecker
from kvlitmus.conformance.history.reader import Reader
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.ports import Config, capabilities_of
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import to_json
from kvlitmus.conformance.tape.lines import TapeReader

ROOT = Path(__file__).resolve().parents[3]
PORT_OF = {"available": "pool", "sizes": "counters", "view": "inspect"}
LOOKS = {0: (), 1: ("available", "sizes"), 3: ("available", "sizes", "view")}


def example() -> Any:
    """The logger of the docs, as a module."""
    path = ROOT / "docs" / "examples" / "trace_logger.py"
    spec = importlib.util.spec_from_file_location("trace_logger", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


logging = example()


def logger(cache: Any, path: Path, header: dict[str, Any], looks: Sequence[str]) -> Any:
    """The logger around a cache; for a prefetch plan the conversation with the host is added."""
    made = logging.TraceLogger(cache, str(path), header, looks)

    def plan_prefetch(ask: Any, host: Any) -> Any:
        line: dict[str, Any] = {"call": "plan_prefetch"}
        try:
            answer = cache.plan_prefetch(ask, host)
            line["answer"] = logging.plain(answer)
            return answer
        except BaseException as error:
            line["raised"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            line["kwargs"] = {"ask": logging.plain(ask), "host": [logging.plain(call) for call in host.calls]}
            made._write(line)

    if hasattr(cache, "plan_prefetch"):
        made.plan_prefetch = plan_prefetch
    return made


def record(
    target: Any,
    config: Config,
    program: Callable[[Checker], None],
    path: Path,
    *,
    depth: int = 3,
    contents: str = "as_asked",
) -> tuple[Checker, Violation | None]:
    """Run a program on a fresh cache, with the logger between cache and judge; returns what the run said."""
    cache, profile = engine.make_adapter(target, config, CurrentRun())
    ports = capabilities_of(cache)
    looks = [look for look in LOOKS[depth] if PORT_OF[look] in ports]
    header = {
        "config": to_json(config),
        "profile": describe(profile),
        "ports": sorted(ports & JUDGED_PORTS),
        "contents": contents,
    }
    made = logger(cache, path, header, looks)
    made.events = None  # a trace has no place for them yet
    checker = Checker(made, config, profile, depth=depth)
    try:
        program(checker)
    except Violation as violation:
        return checker, violation
    finally:
        made._file.close()
    return checker, None


def schedule(target: Any, config: Config, seed: int, ops: int = 250, *, leave: str = "") -> Callable[[Checker], None]:
    """The program of a seed, of what a trace can hold; kinds in ``leave`` are left out."""
    ports = capabilities_of(target.make(config)) & JUDGED_PORTS
    kinds = [kind for kind in table(ports) if kind != leave]
    return lambda checker: Interpreter(checker).play(draw(seed, ops, kinds))


def check(path: Path, **how: Any) -> TraceChecker:
    """Judge a trace to its end, or as far as can be."""
    with TapeReader(str(path), ignore_unknown=how.pop("ignore_unknown", False)) as tape:
        reader = Reader(tape)
        trace_checker = TraceChecker(reader, **how)
        for _ in trace_checker.run(reader):
            pass
    return trace_checker


HEADER: dict[str, Any] = {
    "kind": "kvlitmus tape",
    "format": 1,
    "config": {"page_size": 4, "pages": 8},
    "ports": ["pool", "extend", "group", "tree", "locks", "evict", "requests", "reset"],
}


def written(path: Path, *calls: dict[str, Any], **header: Any) -> Path:
    """A tape written by hand; what is a look is put where looks stand."""
    looks = {name: header.pop(name) for name in PORT_OF if name in header}
    lines = [json.dumps({**HEADER, **header}), *([json.dumps({"looks": looks})] if looks else [])]
    lines += [json.dumps(with_looks(one)) for one in calls]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def with_looks(line: dict[str, Any]) -> dict[str, Any]:
    """A step whose looks stand under their key."""
    looks = {name: line[name] for name in PORT_OF if name in line}
    return {**{name: one for name, one in line.items() if name not in looks}, **({"looks": looks} if looks else {})}


def call(method: str, *args: Any, answer: Any = None, **more: Any) -> dict[str, Any]:
    """One line."""
    return {"call": method, "args": list(args), "answer": answer, **more}


def key(*tokens: int, namespace: str | None = None) -> dict[str, Any]:
    """A key."""
    return {"tokens": list(tokens), "namespace": namespace}
