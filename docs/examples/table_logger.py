"""Writes a tape of a block table, for ``kvlitmus check``: copy this file, it needs nothing else.

    header = {"config": {"page_size": 16, "pages": 4096, "components": "groups"}, "ports": ["component_requests"]}
    table = TableLogger(table, "play.tape", header, looks=["component_available"])

Use the logger wherever the table was used; its methods are those of the ports.  Each call is a line, written when it
has returned or raised, one at a time, because their order is what is judged.  After each call the looks are made.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

GIVES = {"component_match": 2, "component_start": 0}  # calls that give a handle or a receipt, and where in the answer
SCALARS = (bool, int, float, str, type(None))
RECEIPTS = 10_000  # so many requests are known by name at once


class TableLogger:
    """A table that writes down what it is asked and what it answers; ``looks``: methods that only look."""

    def __init__(self, cache: Any, path: str, header: dict[str, Any], looks: Sequence[str] = ("available",)) -> None:
        self._cache, self._looks, self._lock, self._busy = cache, looks, threading.RLock(), False
        self._number, self._last = 0, dict[str, str]()
        self._names: dict[int, tuple[Any, Any]] = {}  # of receipts, by their id
        self.file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
        self._write({"kind": "kvlitmus tape", "format": 1, **header})
        self._write({"looks": self._seen()})

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._cache, method)
        if not callable(found) or method in self._looks or method.startswith("_"):
            return found
        return lambda *args, **kwargs: self._call(method, found, args, kwargs)

    def _call(self, method: str, found: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            if self._busy:  # the cache calls itself: that is its own affair
                return found(*args, **kwargs)
            self._number, self._busy = self._number + 1, True
            told = [self._names.get(id(one), (None, plain(one)))[1] for one in args]
            line: dict[str, Any] = {"call": method, "args": told, "kwargs": plain(kwargs)}
            try:
                answer = found(*args, **kwargs)
                line["answer"] = plain(answer)
                if method in GIVES and isinstance(answer, tuple):
                    line["answer"][GIVES[method]] = self._named(answer[GIVES[method]], GIVES[method])
                return answer
            except BaseException as error:
                line["raised"] = f"{type(error).__name__}: {error}"
                raise
            finally:
                self._busy = False
                self._write({**line, "looks": self._seen()})

    def _named(self, thing: Any, where: int) -> Any:
        if isinstance(thing, SCALARS):
            return thing
        name = {"@": [self._number, where]}
        shown = self._names.pop(id(thing), (thing, name))[1]  # in an answer a receipt that is known has its old name
        self._names[id(thing)] = (thing, name)
        if len(self._names) > RECEIPTS:
            del self._names[next(iter(self._names))]
        return shown

    def _seen(self) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for look in self._looks:
            try:
                seen[look] = plain(getattr(self._cache, look)())
            except Exception as error:  # noqa: BLE001 - it is the cache's fault, and is judged like a call that raises
                seen[look] = {"raised": f"{type(error).__name__}: {error}"}
            before, self._last[look] = self._last.get(look), json.dumps(seen[look], default=odd)
            seen[look] = {"~": []} if before == self._last[look] else seen[look]  # as it was
        return seen

    def _write(self, line: dict[str, Any]) -> None:
        kept = {name: one for name, one in line.items() if one or name not in ("args", "kwargs", "looks")}
        self.file.write(json.dumps(kept, default=odd, separators=(",", ":")) + "\n")
        self.file.flush()


def plain(value: Any) -> Any:
    """A value as a tape has it: what has fields is an object, without those at their default."""
    if hasattr(value, "_asdict"):
        usual, fields = {} if type(value).__name__ == "Key" else value._field_defaults, value._asdict().items()
        return {name: plain(one) for name, one in fields if one != usual.get(name, usual)}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, dict):  # such as places by where they end
        return [[plain(name), plain(one)] for name, one in value.items()]
    return [plain(one) for one in value] if isinstance(value, list | tuple | range) else value


def odd(value: Any) -> Any:
    """What is no plain data: known by a number."""
    return {"$": "object", "of": id(value)}
