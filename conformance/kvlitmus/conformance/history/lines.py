"""Reading a recorded trace: JSON Lines, plain or compressed with gzip, one call a line.

The file is read as a stream, a line at a time, and never held in memory.  A line that is no call is an error
that says what was expected and what was got.  The last line is another matter: a process that died while it
logged leaves half a line, and what stands before it is as good as ever.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, cast

from kvlitmus.conformance.history.forms import JUDGED_PORTS, LOOKS, PARAMETERS, Arguments, FormError, Looks, arguments
from kvlitmus.conformance.ports import PORTS, Config, Profile
from kvlitmus.conformance.run.results import config_from_json, profile_from_json
from kvlitmus.conformance.support.text import harmless, shown

KIND = "kvlitmus trace"
FORMAT = 1
"""The version of the format; it rises when a reader would have to change."""

MAX_LINE = 64 << 20
"""The longest line, in bytes: a snapshot of a million pages fits."""

SHOWN = 100
"""How much of an odd value an error shows, in characters."""

Line = dict[str, Any]
"""A line as it was read: anybody's JSON object, of which every field is checked before it is used."""

CONTENTS = ("unknown", "as_asked", "recorded")
"""What is known of the KV in the slots; see ``docs/check.md``."""

HEADER = {"kind", "format", "config", "profile", "ports", "contents", "cache", *LOOKS}
CALL = {"call", "args", "kwargs", "answer", "raised", "time", "thread", *LOOKS}

UNWATCHED = {"page_hashes", "plan_prefetch", "write", "free_group_begin", *LOOKS}
"""Calls after which nobody looks: they change nothing, or nothing that could be seen yet."""


class TraceError(Exception):
    """A file that is no trace; ``line`` is 0 when it is the file as a whole."""

    def __init__(self, file: str, line: int, expected: str, got: str) -> None:
        where = f", line {line}" if line else ""
        super().__init__(f"{harmless(file)}{where}: expected {expected}, got {got}")
        self.file = file
        self.line = line
        self.expected = expected
        self.got = got


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the first line says: how the cache was made, which ports it has, and how it looked when it was fresh.

    ``looks``: what is observed after each call.  ``unjudged``: ports that it has and that can't be judged
    from a trace.
    """

    config: Config
    profile: Profile
    ports: frozenset[str]
    unjudged: frozenset[str]
    contents: str
    cache: str
    looks: frozenset[str]
    first: Looks

    @property
    def depth(self) -> int:
        """How deep a checker can look."""
        return 3 if "view" in self.looks else 1 if self.looks else 0


class Call(NamedTuple):
    """One line: a call, its arguments by name, and its answer, or what it raised; ``look``: the line itself.

    A ``method`` that isn't known has no arguments.
    """

    line: int
    method: str
    args: Arguments
    answer: Any
    raised: str | None
    look: Looks


class Reader:
    """One pass over one trace; ``header`` is read at once.

    After the last call ``torn`` says, if the file was cut short, in which line and how.  ``done`` and ``size``
    count bytes of the file as it lies on the disk; the size is 0 where there is none.
    """

    def __init__(self, file: str, *, ignore_unknown: bool = False) -> None:
        self.file = file
        self.number = 0
        self.torn: tuple[int, str] | None = None
        self.ignore_unknown = ignore_unknown
        try:
            self.raw: IO[bytes] = sys.stdin.buffer if file == "-" else Path(file).open("rb")  # noqa: SIM115 - streamed
            self.size = 0 if file == "-" else os.fstat(self.raw.fileno()).st_size
            buffered = cast("io.BufferedReader", self.raw)
            packed = buffered.peek(2)[:2] == b"\x1f\x8b"
        except OSError as error:
            raise TraceError(file, 0, "a file that can be read", error.strerror or str(error)) from None
        self.lines: IO[bytes] = cast("IO[bytes]", gzip.GzipFile(fileobj=self.raw)) if packed else self.raw
        try:
            self.header = self.read_header()
        except TraceError:
            self.close()
            raise

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it is one."""
        if self.file != "-":
            self.raw.close()

    @property
    def done(self) -> int:
        """How many bytes of the file were read."""
        return self.raw.tell() if self.size else 0

    def wrong(self, expected: str, got: str) -> NoReturn:
        """Raise for the line being read; ``got`` in words."""
        raise TraceError(self.file, self.number, expected, got)

    def odd(self, expected: str, value: object) -> NoReturn:
        """Raise for the line being read; a value was got."""
        self.wrong(expected, shown(value, SHOWN))

    def __iter__(self) -> Iterator[Call]:
        """The calls, in order."""
        while (found := self.next_object()) is not None:
            yield self.call(found)

    def next_object(self) -> Line | None:
        """The object in the next line; ``None`` at the end, torn or not."""
        self.number += 1
        try:
            raw = self.lines.readline(MAX_LINE + 1)
        except EOFError:
            self.torn = (self.number, "the compressed file ends before its end mark")
            return None
        except (gzip.BadGzipFile, zlib.error, OSError) as error:
            self.wrong("a file that can be read", harmless(error))
        if not raw:
            return None
        whole = raw.endswith(b"\n")
        if len(raw) > MAX_LINE:
            self.wrong(f"a line of at most {MAX_LINE:,} bytes", "a longer one")
        try:
            found = json.loads(raw, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            if not whole:
                self.torn = (self.number, f"it breaks off after {len(raw):,} bytes")
                return None
            what = raw[:SHOWN].decode("utf-8", "replace").strip()
            self.wrong("a JSON object", f"{harmless(what, SHOWN)!r} ({harmless(error)})" if what else "a blank line")
        if not isinstance(found, dict):
            self.odd("a JSON object", found)
        return found

    # -- the header ----------------------------------------------------------------------------

    def read_header(self) -> Header:
        """The first line."""
        found = self.next_object()
        if found is None:
            self.number = 1
            self.wrong("the header of a trace", "nothing" if self.torn is None else f"half a line: {self.torn[1]}")
        if found.get("kind") != KIND:
            self.odd(f'a header with "kind": "{KIND}"', found)
        if found.get("format") != FORMAT:
            self.odd(f"format {FORMAT}, which is all that this version reads", found.get("format"))
        strange = found.keys() - HEADER
        if strange and not self.ignore_unknown:
            self.wrong(f"a header with {', '.join(sorted(HEADER))}", f"{min(strange)!r} too")
        config, ports = self.config(found.get("config")), self.ports(found.get("ports"))
        contents = found.get("contents", "unknown")
        if contents not in CONTENTS:
            self.odd(f"contents to be one of {', '.join(CONTENTS)}", contents)
        looks = frozenset(one for one in LOOKS if one in found)
        for look, port in (("available", "pool"), ("sizes", "counters"), ("view", "inspect")):
            if look in looks and port not in ports:
                self.odd(f"the port {port!r} among the ports, since the header shows {look!r}", sorted(ports))
        for look, port in (("available", "pool"), ("sizes", "counters")):
            if looks and look not in looks and port in ports:
                self.wrong(f"{look!r} in the header, beside {' and '.join(map(repr, sorted(looks)))}", "none")
        if "inspect" in ports and "view" not in looks:
            ports -= {"inspect"}
        if not looks:
            ports -= {"counters"}
        return Header(
            config=config,
            profile=self.profile(found.get("profile", {})),
            ports=ports & JUDGED_PORTS,
            unjudged=ports - JUDGED_PORTS,
            contents=contents,
            cache=harmless(found.get("cache", "")),
            looks=looks,
            first=found,
        )

    def config(self, found: Any) -> Config:
        """How the cache was made."""
        if not isinstance(found, dict) or not {"page_size", "pages"} <= found.keys():
            self.odd("a config with page_size and pages", found)
        try:
            return config_from_json(found)
        except ValueError as error:
            self.wrong("a config that kvlitmus knows", harmless(error))

    def ports(self, found: Any) -> frozenset[str]:
        """The names of ports."""
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            self.odd("ports to be a list of names", found)
        unknown = set(found) - PORTS.keys()
        if unknown and not self.ignore_unknown:
            self.odd(f"ports among {', '.join(PORTS)} (or --ignore-unknown)", min(unknown))
        return frozenset(found)

    def profile(self, found: Any) -> Profile:
        """The legal choices of the cache; what isn't said is as usual."""
        if not isinstance(found, dict):
            self.odd("a profile to be an object", found)
        known = [one.name for one in fields(Profile)]
        for name in found:
            if name not in known:
                self.odd(f"a profile with fields among {', '.join(known)}", name)
        try:
            return profile_from_json(found)
        except ValueError as error:
            self.wrong("a profile that kvlitmus knows", harmless(error))

    # -- a call --------------------------------------------------------------------------------

    def call(self, found: Line) -> Call:
        """The call in an object."""
        method = found.get("call")
        if type(method) is not str:
            self.odd('a call such as {"call": "alloc", "args": [4], "answer": [4, 5, 6, 7]}', found)
        strange = found.keys() - CALL
        if strange and not self.ignore_unknown:
            self.wrong(f"a call with {', '.join(sorted(CALL))}", f"{min(strange)!r} too")
        raised = found.get("raised")
        if ("answer" in found) == ("raised" in found):
            self.wrong("either an answer or what was raised", "both" if "answer" in found else "neither")
        if "raised" in found and type(raised) is not str:
            self.odd('raised to be a text such as "ValueError: no such slot"', raised)
        args, kwargs = found.get("args", []), found.get("kwargs", {})
        if type(args) is not list or type(kwargs) is not dict:
            self.odd("args to be a list and kwargs an object", args if type(args) is not list else kwargs)
        if method not in PARAMETERS:
            if not self.ignore_unknown:
                self.odd(f"one of the calls {', '.join(PARAMETERS)} (or --ignore-unknown)", method)
            return Call(self.number, method, {}, None, raised, found)
        try:
            named = arguments(method, args, kwargs)
        except FormError as error:
            self.odd(error.expected, error.got)
        missing = self.header.looks - found.keys() if raised is None and method not in UNWATCHED else ()
        if missing:
            self.wrong(f"{min(missing)!r} on this line, since the header has it", "none")
        return Call(self.number, method, named, found.get("answer"), raised, found)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
