"""Records what a cache does, for ``kvlitmus check``: copy this file into your engine, it needs nothing else.

    cache = TraceLogger(cache, "trace.jsonl", {"config": {"page_size": 16, "pages": 4096}, "ports": ["pool", "tree"]})

Use the logger wherever the cache was used.  Every call is one line, written and flushed when the call has returned
or raised.  The calls are made one at a time, because their order is what is judged.
"""

import json
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

LOOKS = ("available", "sizes", "view", "host_available", "tiers", "jobs", "peek")  # no calls: they change nothing


class TraceLogger:
    """A cache that writes down what it is asked and what it answers; ``looks`` are made after each call."""

    def __init__(self, cache: Any, path: str, header: dict[str, Any], looks: Sequence[str] = ("available",)) -> None:
        self._cache, self._looks, self._lock, self._busy = cache, looks, threading.RLock(), False
        self._handles: dict[int, Any] = {}  # id -> the object, and its names in the trace
        self._receipts: dict[int, Any] = {}
        self._serial, self._file = count(1), Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
        self._line({"kind": "kvlitmus tape", "format": 1, **header})
        if looks:
            self._write({})

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._cache, method)
        if not callable(found) or method in LOOKS or method.startswith("_"):
            return found
        return lambda *args, **kwargs: self._call(method, found, args, kwargs)

    def _call(self, method: str, found: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            if self._busy:  # the cache calls itself: that is its own affair
                return found(*args, **kwargs)
            names = {"lock": self._handles, "unlock": self._receipts}.get(method)
            given = plain(args) if names is None else [self._known(names, *args, **kwargs)]
            line, self._busy = {"call": method, "args": given, "kwargs": plain(kwargs) if names is None else {}}, True
            try:
                answer = found(*args, **kwargs)
                line["answer"] = self._new(self._receipts, "r", answer) if method == "lock" else plain(answer)
                if method == "match" and isinstance(line["answer"], dict):
                    line["answer"]["handle"] = self._new(self._handles, "h", getattr(answer, "handle", None))
                return answer
            except BaseException as error:
                line["raised"] = f"{type(error).__name__}: {error}"
                raise
            finally:
                self._busy = False
                self._write(line)

    def _write(self, line: dict[str, Any]) -> None:
        for look in self._looks if "raised" not in line else ():
            seen = line.setdefault("looks", {})
            try:
                seen[look] = plain(getattr(self._cache, look)())
            except Exception as error:  # noqa: BLE001 - it is the cache's fault, and is judged like a call that raises
                seen[look] = {"raised": f"{type(error).__name__}: {error}"}
        self._line(line)

    def _line(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, default=repr, separators=(",", ":")) + "\n")
        self._file.flush()

    def _new(self, among: dict[int, Any], kind: str, thing: object) -> str:
        name = f"{kind}{next(self._serial)}"  # each match and each lock gets a name of its own
        among.setdefault(id(thing), (thing, []))[1].append(name)
        if kind == "h":
            among[id(thing)][1][:-1] = []  # of a handle that several matches gave, the last one counts
            if len(among) > 10_000:
                del among[next(iter(among))]
        return name

    def _known(self, among: dict[int, Any], thing: object) -> str:
        names = among.get(id(thing), (thing, ["unknown"]))[1]
        if among is self._receipts and len(names) == 1:
            among.pop(id(thing), None)
        return str(names.pop() if among is self._receipts else names[-1])


def plain(value: Any) -> Any:
    """A value as JSON has it: named tuples become objects, other sequences lists."""
    if hasattr(value, "_asdict"):
        return {name: plain(one) for name, one in value._asdict().items() if name != "handle"}
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple | range) else value
