"""Files of tapes: JSON Lines, plain or packed by gzip or xz, read and written as a stream.

A file holds plays, one after the other: a header each, and a line for each step.  It is read a line at a time and
never held in memory.  A line that is none of these is an error that says what was expected and what was got.  The last
line is another matter: a process that died while it wrote leaves half a line, and what stands before it is as good as
ever.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, NamedTuple, NoReturn, Self, cast

from kvlitmus.conformance.ports import PORTS, Config, Profile
from kvlitmus.conformance.run.results import Item, config_from_json, item_from_json, profile_from_json
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless, shown
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.tape.written import Line

KIND = "kvlitmus tape"
FORMAT = 1
"""The version of the format; it rises when a reader would have to change."""

MAX_LINE = 64 << 20
"""The longest line, in bytes: a snapshot of a million pages fits."""

SHOWN = 100
"""How much of an odd value an error shows, in characters."""

BEGINNINGS = ("fresh", "middle")
"""Whether the cache was fresh when the play began, or in use already."""

CONTENTS = ("unknown", "as_asked", "recorded")
"""What is known of the KV in the slots; see ``docs/check.md``."""

HEADER = frozenset(
    {"kind", "format", "kvlitmus", "target", "cache", "version", "build", "date", "config", "profile", "ports"}
    | {"methods", "begins", "without", "contents", "item", "depth", "force_misuse", "finding", "vector", "origin"}
)
"""What a header may have."""

STEP = frozenset(
    {"call", "args", "kwargs", "answer", "raised", "did", "looks", "time", "thread", "text", "op"}
    | {"expected", "verdicts"}
)
"""What a step may have."""

MOST_DEPTH = 3


class TapeError(Exception):
    """A file that is no tape; ``line`` is 0 when it is the file as a whole."""

    def __init__(self, file: str, line: int, expected: str, got: str) -> None:
        where = f", line {line}" if line else ""
        super().__init__(f"{harmless(file)}{where}: expected {expected}, got {got}")
        self.file = file
        self.line = line
        self.expected = expected
        self.got = got


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the first line of a play says: what was played on which cache, and how that was made.

    ``ports``: what it has; ``methods``: what it has of calls that make up no port of these.  ``item``: what was played,
    where the suite played.  ``begins``: whether the cache was fresh then; ``without``: calls that were made and aren't
    told.  ``data``: the header as it stands.
    """

    line: int
    data: dict[str, Json]
    config: Config
    profile: Profile
    ports: frozenset[str]
    methods: tuple[str, ...]
    begins: str
    without: tuple[str, ...]
    contents: str
    target: str
    cache: str
    kvlitmus: str
    item: Item | None
    depth: int
    force_misuse: bool


class Step(NamedTuple):
    """One line: a call, its arguments and its answer, or what it raised, as they stand.

    ``call`` is empty for the looks at a fresh cache.

    ``number``: the place in the play; the first call has 1.  ``data``: the line as it stands.
    """

    line: int
    number: int
    call: str
    args: list[Json]
    kwargs: dict[str, Json]
    answer: Json
    raised: str | None
    did: list[Json]
    looks: dict[str, Json]
    data: dict[str, Json]


def opened(file: str, data: bytes | None = None, stream: IO[bytes] | None = None) -> tuple[IO[bytes], int]:
    """A file, or its data, and how many bytes it has on the disk: 0 where there is none; raises ``OSError``.

    ``stream``: the file, if it is open already.
    """
    if data is not None:
        return io.BufferedReader(io.BytesIO(data)), len(data)
    if file == "-":
        return sys.stdin.buffer, 0
    raw = stream or Path(file).open("rb")  # noqa: SIM115 - streamed
    return raw, os.fstat(raw.fileno()).st_size


class OpenFile:
    """A file, or its ``data``, or an open ``stream``, that is read once: ``unpacked``, if gzip or xz has packed it.

    ``done`` and ``size`` count bytes of the file as it lies on the disk; the size is 0 where there is none.  Raises
    ``OSError`` or ``ValueError`` (a name with a null character) for what can't be opened.
    """

    def __init__(self, file: str, data: bytes | None = None, stream: IO[bytes] | None = None) -> None:
        self.file = file
        self.raw, self.size = opened(file, data, stream)
        head = cast("io.BufferedReader", self.raw).peek(6)
        self.unpacked: IO[bytes] = self.raw
        if head.startswith(b"\x1f\x8b"):
            self.unpacked = cast("IO[bytes]", gzip.GzipFile(fileobj=self.raw))
        elif head.startswith(b"\xfd7zXZ"):
            self.unpacked = cast("IO[bytes]", lzma.LZMAFile(self.raw))  # noqa: SIM115 - streamed

    def __enter__(self) -> Self:
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


class TapeReader(OpenFile):
    """One pass over one file; the header of its first play, ``header``, is read at once.

    After the last line ``torn`` says, if the file was cut short, in which line and how.
    """

    def __init__(
        self,
        file: str,
        *,
        data: bytes | None = None,
        stream: IO[bytes] | None = None,
        ignore_unknown: bool = False,
    ) -> None:
        self.number = 0
        self.torn: tuple[int, str] | None = None
        self.ignore_unknown = ignore_unknown
        try:
            super().__init__(file, data, stream)
        except (OSError, ValueError) as error:
            raise TapeError(file, 0, "a file that can be read", files.reason(error)) from None
        try:
            self.header = self.first_header()
        except TapeError:
            self.close()
            raise

    @property
    def breaks_off(self) -> str:
        """In which line the file was cut short, and how; empty where it was not."""
        return "" if self.torn is None else f"line {self.torn[0]}: {self.torn[1]}"

    def check_whole(self) -> None:
        """Raise :class:`TapeError` where the file was cut short."""
        if self.torn is not None:
            raise TapeError(self.file, self.torn[0], "a whole line", f"half a line: {self.torn[1]}")

    def wrong(self, expected: str, got: str) -> NoReturn:
        """Raise for the line being read; ``got`` in words."""
        raise TapeError(self.file, self.number, expected, got)

    def odd(self, expected: str, value: object) -> NoReturn:
        """Raise for the line being read; a value was got."""
        self.wrong(expected, shown(value, SHOWN))

    # -- plays ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Header | Step]:
        """All that follows the first header: steps, and the headers of further plays."""
        at, fresh = 0, True
        while (found := self.next_object()) is not None:
            if "kind" in found:
                at, fresh = 0, True
                yield self.header_in(found)
                continue
            if not fresh or "looks" not in found or "call" in found:
                at += 1
            fresh = False
            yield self.step_in(found, at)

    def plays(self) -> Iterator[tuple[Header, Iterator[Step]]]:
        """The plays, each with its steps; steps that were not taken are skipped when the next play is."""
        lines = iter(self)
        following: list[Header] = [self.header]

        def steps() -> Iterator[Step]:
            for one in lines:
                if isinstance(one, Header):
                    following.append(one)
                    return
                yield one

        while following:
            inside = steps()
            yield following.pop(), inside
            for _ in inside:
                pass

    def next_object(self) -> dict[str, Json] | None:
        """The object in the next line; ``None`` at the end, torn or not."""
        self.number += 1
        try:
            raw = self.unpacked.readline(MAX_LINE + 1)
        except EOFError:
            self.torn = (self.number, "the compressed file ends before its end mark")
            return None
        except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError) as error:
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

    def first_header(self) -> Header:
        """The first line."""
        found = self.next_object()
        if found is None:
            self.number = 1
            self.wrong("the header of a tape", "nothing" if self.torn is None else f"half a line: {self.torn[1]}")
        return self.header_in(found)

    def header_in(self, found: dict[str, Json]) -> Header:
        """The header in an object."""
        if found.get("kind") != KIND:
            self.odd(f'a header with "kind": "{KIND}"', found)
        if type(found.get("format")) is not int or found["format"] != FORMAT:
            self.odd(f"format {FORMAT}, which is all that this version reads", found.get("format"))
        self.known(found, HEADER, "a header")
        contents, depth = found.get("contents", CONTENTS[0]), found.get("depth", MOST_DEPTH)
        begins = found.get("begins", BEGINNINGS[0])
        if begins not in BEGINNINGS:
            self.odd(f"begins to be one of {', '.join(BEGINNINGS)}", begins)
        if contents not in CONTENTS:
            self.odd(f"contents to be one of {', '.join(CONTENTS)}", contents)
        if type(depth) is not int or not 0 <= depth <= MOST_DEPTH:
            self.odd(f"depth to be 0 to {MOST_DEPTH}", depth)
        forced = found.get("force_misuse", False)
        if type(forced) is not bool:
            self.odd("force_misuse to be true or false", forced)
        config = self.config(found.get("config"))
        return Header(
            line=self.number,
            data=found,
            config=config,
            profile=self.profile(found.get("profile", {})),
            ports=self.ports(found.get("ports", [])),
            methods=tuple(self.names(found.get("methods", []), "methods")),
            begins=begins,
            without=tuple(self.names(found.get("without", []), "without")),
            contents=contents,
            target=self.text(found, "target"),
            cache=self.text(found, "cache"),
            kvlitmus=self.text(found, "kvlitmus"),
            item=self.item(found["item"], config) if "item" in found else None,
            depth=depth,
            force_misuse=forced,
        )

    def known(self, found: Mapping[str, Json], names: frozenset[str], what: str) -> None:
        """There is nothing else."""
        strange = found.keys() - names
        if strange and not self.ignore_unknown:
            self.wrong(f"{what} with {', '.join(sorted(names))}", f"{min(strange)!r} too")

    def text(self, found: Mapping[str, Json], name: str) -> str:
        """A text of the header, empty where there is none."""
        value = found.get(name, "")
        if type(value) is not str:
            self.odd(f"{name} to be a text", value)
        return value

    def config(self, found: Json) -> Config:
        """How the cache was made."""
        if not isinstance(found, dict) or not {"page_size", "pages"} <= found.keys():
            self.odd("a config with page_size and pages", found)
        try:
            return config_from_json(found)
        except (ValueError, TypeError) as error:
            self.wrong("a config that kvlitmus knows", harmless(error))

    def names(self, found: Json, what: str) -> list[str]:
        """A list of names."""
        if not isinstance(found, list) or not all(type(one) is str for one in found):
            self.odd(f"{what} to be a list of names", found)
        return cast("list[str]", found)

    def ports(self, found: Json) -> frozenset[str]:
        """The names of ports."""
        names = frozenset(self.names(found, "ports"))
        unknown = names - PORTS.keys()
        if unknown and not self.ignore_unknown:
            self.odd(f"ports among {', '.join(PORTS)} (or --ignore-unknown)", min(unknown))
        return names

    def profile(self, found: Json) -> Profile:
        """The legal choices of the cache; what isn't said is as usual."""
        if not isinstance(found, dict):
            self.odd("a profile to be an object", found)
        known = [one.name for one in fields(Profile)]
        for name in found:
            if name not in known:
                self.odd(f"a profile with fields among {', '.join(known)}", name)
        try:
            return profile_from_json(found)
        except (ValueError, TypeError) as error:
            self.wrong("a profile that kvlitmus knows", harmless(error))

    def item(self, found: Json, config: Config) -> Item:
        """What was played."""
        try:
            item = item_from_json(found, config)
        except ValueError as error:
            self.wrong("an item that kvlitmus knows", harmless(error))
        if item.kind == "tape":
            self.wrong("an item that kvlitmus knows", "the calls of another file")
        return item

    # -- a step --------------------------------------------------------------------------------

    def step_in(self, found: dict[str, Json], number: int) -> Step:
        """The step in an object."""
        method = found.get("call", "")
        if type(method) is not str or (number > 0 and not method):
            self.odd('a call such as {"call": "alloc", "args": [4], "answer": [4, 5, 6, 7]}', found)
        self.known(found, STEP, "a call")
        raised = found.get("raised")
        if number and ("answer" in found) == ("raised" in found):
            self.wrong("either an answer or what was raised", "both" if "answer" in found else "neither")
        if "raised" in found and type(raised) is not str:
            self.odd('raised to be a text such as "ValueError: no such slot"', raised)
        args, kwargs = found.get("args", []), found.get("kwargs", {})
        if type(args) is not list or type(kwargs) is not dict:
            self.odd("args to be a list and kwargs an object", args if type(args) is not list else kwargs)
        did, looks = found.get("did", []), found.get("looks", {})
        if type(did) is not list or not all(type(one) is list and one and type(one[0]) is str for one in did):
            self.odd('did to be a list such as [["put", ["name", [1, 2]], true]]', did)
        if type(looks) is not dict:
            self.odd('looks to be an object such as {"available": 8}', looks)
        answer = found.get("answer")
        return Step(self.number, number, method, args, kwargs, answer, cast("str | None", raised), did, looks, found)


class TapeWriter:
    """Writes plays to a file as they come, packed by what its name ends with: ``.gz``, ``.xz``, or plain."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".xz":
            self._file: IO[bytes] = cast("IO[bytes]", lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME))  # noqa: SIM115
        elif path.suffix == ".gz":
            self._file = cast("IO[bytes]", gzip.GzipFile(path, "wb", mtime=0))
        else:
            self._file = path.open("wb")

    def __enter__(self) -> TapeWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def play(self, header: Mapping[str, Json]) -> None:
        """Begin a play; kind and format need not be said."""
        self._file.write(encoded(headed(header)))

    def step(self, step: Mapping[str, Json]) -> None:
        """Write the next step."""
        self._file.write(encoded(step))

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._file.close()


def headed(header: Mapping[str, Json]) -> Line:
    """A header that says what it is."""
    return {"kind": KIND, "format": FORMAT, **header}


def encoded(line: Mapping[str, object]) -> bytes:
    """A line of a file."""
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
