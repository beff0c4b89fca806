"""Reading traces in Mooncake's format: JSON Lines, one request a line.

Each line is an object with ``timestamp`` (milliseconds), ``input_length`` and ``output_length``
(tokens) and ``hash_ids``: one id for each block of 512 input tokens, the last one possibly
partly filled.  An id stands for the block *and everything before it*, so each id has one parent,
one depth and one length, and all ids together form a tree.  What contradicts that is an error,
because replaying it would give figures of nothing.

Further keys are allowed and ignored: traces get annotated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

BLOCK = 512
"""Tokens in a full block."""

MAX_FILE = 1 << 30
"""The largest file that is read, in bytes."""

MAX_LINE = 1 << 20
"""The longest line, in bytes: enough for a prompt of 25 million tokens."""

MAX_BRACKETS = 64
"""The most brackets that a line may open; a request needs two, and nesting can't be deeper than this."""

MAX_REQUESTS = 10_000_000
"""The most requests of one trace."""

MAX_NUMBER = (1 << 63) - 1
"""The largest number: what engines keep token ids in."""

SHOWN = 80
"""How much of an odd value an error shows, in characters."""


class TraceError(Exception):
    """A trace that can't be replayed; ``line`` is ``None`` when it is the file as a whole."""

    def __init__(self, file: str, line: int | None, expected: str, got: str) -> None:
        where = repr(file) if not file.isprintable() else file
        super().__init__(f"{where}{'' if line is None else f', line {line}'}: expected {expected}, got {got}")
        self.file = file
        self.line = line
        self.expected = expected
        self.got = got


class Request(NamedTuple):
    """One request: its line in the file, its arrival in milliseconds, its input in tokens, its blocks."""

    line: int
    timestamp: int
    tokens: int
    blocks: tuple[int, ...]

    @property
    def full(self) -> int:
        """How many of its blocks are full."""
        return self.tokens // BLOCK


class Place(NamedTuple):
    """Where an id stands: the id before it (``None``: it comes first), its depth, its tokens, the line that said so."""

    parent: int | None
    depth: int
    tokens: int
    line: int


class Reader:
    """One pass over one file; remembers what later lines have to agree with."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)
        self.line = 0
        self.last = 0
        self.places: dict[int, Place] = {}

    def wrong(self, expected: str, got: str) -> NoReturn:
        """Raise for the line being read."""
        raise TraceError(self.file, self.line, expected, got)

    def request(self, raw: bytes) -> Request:
        """The request in one line; raises :class:`TraceError` unless it is well formed and fits all earlier ones."""
        found = self.parse(raw)
        timestamp = self.number(found, "timestamp", 0)
        if timestamp < self.last:
            self.wrong(
                f"timestamp at least {self.last}, as in the line before (requests sorted by time)", str(timestamp)
            )
        self.last = timestamp
        tokens = self.number(found, "input_length", 1)
        self.number(found, "output_length", 0)
        blocks = self.blocks(found, tokens)
        self.place(blocks, tokens)
        return Request(self.line, timestamp, tokens, blocks)

    def parse(self, raw: bytes) -> dict[str, Any]:
        """The object in one line, with no key given twice."""
        complete = raw.endswith(b"\n")
        if raw.count(b"[") + raw.count(b"{") > MAX_BRACKETS:
            self.wrong(f"at most {MAX_BRACKETS} opening brackets", str(raw.count(b"[") + raw.count(b"{")))
        if not raw.strip():
            self.wrong("a request", "a blank line")
        try:
            found = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        except UnicodeDecodeError as error:
            self.wrong("UTF-8", f"byte 0x{raw[error.start]:02x} at column {error.start + 1}")
        except (ValueError, RecursionError) as error:
            if complete:
                self.wrong("a JSON object", f"{_show(raw.decode('utf-8').strip())} ({error})")
            self.wrong("a whole request", f"a line that breaks off after {len(raw)} bytes: the file was cut short")
        if not isinstance(found, dict):
            self.wrong("a JSON object", _show(found))
        return found

    def number(self, found: dict[str, Any], key: str, least: int) -> int:
        """The integer under a key."""
        value = self.get(found, key)
        if type(value) is not int or not least <= value <= MAX_NUMBER:
            self.wrong(f"{key} to be an integer from {least} to 2**63 - 1", _show(value))
        return value

    def get(self, found: dict[str, Any], key: str) -> Any:
        """What stands under a key that every request has."""
        if key not in found:
            self.wrong(f"the key {key!r}", f"the keys {_show(sorted(found))}")
        return found[key]

    def blocks(self, found: dict[str, Any], tokens: int) -> tuple[int, ...]:
        """The ids of a request: integers, as many as its tokens need, none twice."""
        ids = self.get(found, "hash_ids")
        if not isinstance(ids, list):
            self.wrong("hash_ids to be a list", _show(ids))
        needed = -(-tokens // BLOCK)
        if len(ids) != needed:
            self.wrong(f"{needed} hash_ids for input_length {tokens} (blocks of {BLOCK} tokens)", str(len(ids)))
        for one in ids:
            if type(one) is not int or not 0 <= one <= MAX_NUMBER:
                self.wrong("hash_ids to be integers from 0 to 2**63 - 1", _show(one))
        if len(set(ids)) < len(ids):
            self.wrong("each id once in a request", f"id {next(one for one in ids if ids.count(one) > 1)} twice")
        return tuple(ids)

    def place(self, blocks: tuple[int, ...], tokens: int) -> None:
        """Check that each id stands where it stood before, and note the new ones."""
        parent: int | None = None
        for depth, one in enumerate(blocks):
            length = min(BLOCK, tokens - depth * BLOCK)
            known = self.places.get(one)
            if known is None:
                self.places[one] = Place(parent, depth, length, self.line)
            elif known.parent != parent or known.depth != depth:
                self.wrong(
                    f"id {one} {_after(known.parent)} at depth {known.depth}, as in line {known.line}",
                    f"it {_after(parent)} at depth {depth}: an id has one parent",
                )
            elif known.tokens != length:
                self.wrong(
                    f"id {one} to stand for {known.tokens} tokens, as in line {known.line}",
                    f"{length}: an id has one length",
                )
            parent = one


def read_trace(path: str | Path) -> Iterator[Request]:
    """The requests of a trace, one by one, each checked against all before it.

    Raises :class:`TraceError` at the first line that is wrong, for a file that can't be read or is
    too large, and for a trace without requests.
    """
    file = Path(path)
    reader = Reader(file)
    try:
        size = file.stat().st_size
        if size > MAX_FILE:
            raise TraceError(str(file), None, f"at most {MAX_FILE} bytes", str(size))
        with file.open("rb") as stream:
            while raw := stream.readline(MAX_LINE + 1):
                reader.line += 1
                if len(raw) > MAX_LINE:
                    reader.wrong(f"a line of at most {MAX_LINE} bytes", "a longer one")
                if reader.line > MAX_REQUESTS:
                    reader.wrong(f"at most {MAX_REQUESTS} requests", "more")
                yield reader.request(raw)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TraceError(str(file), None, "a file that can be read", str(reason)) from error
    if not reader.line:
        raise TraceError(str(file), None, "at least one request", "an empty file")


class Trace(NamedTuple):
    """A whole trace in memory: where it came from, and its requests in order."""

    file: str
    requests: tuple[Request, ...]

    def longest(self, blocks_of: Callable[[Request], int]) -> Request:
        """The first request with the most blocks, as ``blocks_of`` counts them."""
        return max(self.requests, key=blocks_of)


def load_trace(path: str | Path) -> Trace:
    """Read a whole trace.

    Raises :class:`TraceError`, as :func:`read_trace` does.
    """
    return Trace(str(path), tuple(read_trace(path)))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _after(parent: int | None) -> str:
    return "comes first" if parent is None else f"follows id {parent}"


def _show(value: object) -> str:
    """A value from a file as an error shows it: short, and with nothing in it that a terminal obeys."""
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
