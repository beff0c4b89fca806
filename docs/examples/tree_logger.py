"""Writes a tape of a radix tree with tiers, for ``kvlitmus check``: copy this file, it needs nothing else.

    header = {"config": {"page_size": 16, "pages": 4096, "host_pages": 8192}, "ports": ["pool", "tree", "tiers"]}
    cache = TreeLogger(cache, "play.tape", header, looks=["available", "tiers", "jobs"])

Use the logger wherever the cache was used; its methods are those of the ports.  Each call is a line, written when it
has returned or raised, one at a time, because their order is what is judged.  After each call the looks are made.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LENT = {"attach": 0, "plan_prefetch": 1}  # calls that are lent storage or a host pool, and as which argument
SCALARS = (bool, int, float, str, type(None))
HANDLES = 10_000  # so many handles are known by name; a match that is older can't be locked any more


class TreeLogger:
    """A cache that writes down what it is asked and what it answers; ``looks``: methods that only look."""

    def __init__(self, cache: Any, path: str, header: dict[str, Any], looks: Sequence[str] = ("available",)) -> None:
        self._cache, self._looks, self._lock, self._busy = cache, looks, threading.RLock(), False
        self._number, self._did, self._last = 0, list[Any](), dict[str, str]()
        self._names: dict[int, tuple[Any, Any]] = {}  # of handles and receipts, by their id
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
            self._number, self._busy, own = self._number + 1, True, list(args)
            self._did.clear()
            told = [self._names.get(id(one), (None, plain(one)))[1] for one in args]
            if method in LENT:
                at = LENT[method]
                own[at], told[at] = Lent(args[at], self._did), {"lent": method}
            line: dict[str, Any] = {"call": method, "args": told, "kwargs": plain(kwargs)}
            try:
                answer = found(*own, **kwargs)
                line["answer"] = self._named(answer) if method == "lock" else plain(answer)
                if method == "match" and isinstance(line["answer"], dict):
                    line["answer"]["handle"] = self._named(answer.handle, "handle")
                return answer
            except BaseException as error:
                line["raised"] = f"{type(error).__name__}: {error}"
                raise
            finally:
                self._busy = False
                self._write({**line, "did": self._did, "looks": self._seen()})

    def _named(self, thing: Any, where: str = "") -> Any:
        if isinstance(thing, SCALARS):
            return thing
        name = {"@": [self._number, where] if where else self._number}
        shown = self._names.pop(id(thing), (thing, name))[1]  # in an answer a handle that is known has its old name
        self._names[id(thing)] = (thing, name)
        if len(self._names) > HANDLES:
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
        kept = {name: one for name, one in line.items() if one or name not in ("args", "kwargs", "did", "looks")}
        self.file.write(json.dumps(kept, default=odd, separators=(",", ":")) + "\n")
        self.file.flush()


class Lent:
    """What is lent to the cache, and notes what the cache does with it."""

    def __init__(self, thing: Any, did: list[Any]) -> None:
        self._thing, self._did = thing, did

    def __getattr__(self, method: str) -> Any:
        def noted(*args: Any) -> Any:
            try:
                answer = getattr(self._thing, method)(*args)
            except Exception as error:
                self._did.append([method, plain(args), {"raised": f"{type(error).__name__}: {error}"}])
                raise
            self._did.append([method, plain(args), plain(answer)])
            return answer

        return noted


def plain(value: Any) -> Any:
    """A value as a tape has it: what has fields is an object, without those at their default."""
    if hasattr(value, "_asdict"):
        usual, fields = {} if type(value).__name__ == "Key" else value._field_defaults, value._asdict().items()
        return {name: plain(one) for name, one in fields if name != "handle" and one != usual.get(name, usual)}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple | range) else value


def odd(value: Any) -> Any:
    """What is no plain data: known by a number."""
    return {"$": "object", "of": id(value)}
