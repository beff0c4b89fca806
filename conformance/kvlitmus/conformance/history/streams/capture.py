"""Reading captured streams: messages of a publisher's socket in msgpack, or JSON Lines.

msgpack: one value after the other, each the frames of a message as they were received, ``[topic, number, batch]`` (the
number in 8 bytes, the batch packed as it came), or a batch alone.  JSON Lines: a batch a line, with its number under
``seq`` where it has one, or a single event a line.  Either is plain, or compressed with gzip or xz.

A file is read as a stream, a batch at a time.  A damaged one is an error with the place and what was expected; one that
breaks off is judged as far as it goes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import re
import zlib
from collections.abc import Iterator
from typing import IO, NoReturn, cast

from kvlitmus.conformance.history.streams.forms import Batch, FormError, Plain, events_of, parts_of, publisher_of
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless, shown
from kvlitmus.conformance.tape.lines import OpenFile

MAX_BATCH = 64 << 20
"""The largest batch, in bytes."""

PEEKED = 4096
"""So much is looked at to see what a file is, in bytes."""

NUMBER = 8
"""So many bytes has a publisher's number."""

FRAMES = 3
"""So many frames has a message: topic, number, batch."""

END = -1
"""The number that ends a replay."""

JSON_START = (b"", b"{", b"[")
"""How JSON Lines begin, but for white space."""

NEEDS = "if it is msgpack, install what reads it: pip install 'kvlitmus[events]'"


class StreamError(Exception):
    """A file that is no stream of events; ``place`` says where, empty when it is the file as a whole."""

    def __init__(self, file: str, place: str, expected: str, got: str) -> None:
        where = f", {place}" if place else ""
        super().__init__(f"{harmless(file)}{where}: expected {expected}, got {got}")


def peeked(stream: IO[bytes]) -> bytes:
    """The first bytes of an open file, unpacked; nothing of it is used up.  Raises ``OSError``."""
    raw = cast("io.BufferedReader", stream).peek(PEEKED)[:PEEKED]
    try:
        if raw[:2] == b"\x1f\x8b":
            return zlib.decompressobj(31).decompress(raw, PEEKED)
        if raw[:6] == b"\xfd7zXZ\x00":
            return lzma.LZMADecompressor().decompress(raw, PEEKED)
    except (zlib.error, lzma.LZMAError):
        return raw
    return raw


def is_stream(start: bytes) -> bool:
    """Whether a file that begins like this is a stream of events rather than a recorded trace."""
    start = start.lstrip()
    if start[:1] == b"{":
        names = set(re.findall(rb'"(kind|call|events|type|batch)"\s*:', start))
        return bool(names & {b"events", b"type", b"batch"}) and not names & {b"kind", b"call"}
    return start[:1] == b"[" or start[:1] >= b"\x80"


class Counted:
    """A stream that counts what was read of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.bytes = stream, 0

    def read(self, size: int = -1) -> bytes:
        """So many bytes, or fewer at the end."""
        found = self.stream.read(size)
        self.bytes += len(found)
        return found


class Capture(OpenFile):
    """One pass over one file: the batches, in order.

    After the last one ``torn`` says, if the file breaks off, where and how; ``ignored`` counts events of unknown kinds,
    where these are passed over.
    """

    def __init__(self, file: str, *, stream: IO[bytes] | None = None, ignore_unknown: bool = False) -> None:
        self.number = 0
        self.torn = ""
        self.ignored: dict[str, int] = {}
        self.passes_over = ignore_unknown
        try:
            super().__init__(file, stream=stream)
        except (OSError, ValueError) as error:
            raise StreamError(file, "", "a file that can be read", files.reason(error)) from None
        self.unit = "line"

    @property
    def place(self) -> str:
        """Where the reader is."""
        return f"{self.unit} {self.number}"

    def wrong(self, expected: str, got: str) -> NoReturn:
        """Raise for what is being read; ``got`` in words."""
        raise StreamError(self.file, self.place, expected, got)

    def __iter__(self) -> Iterator[Batch]:
        """The batches, in order."""
        try:
            start = cast("io.BufferedReader", self.unpacked).peek(1)[:1].strip()
            yield from self.lines(self.unpacked) if start in JSON_START else self.messages(self.unpacked)
        except EOFError:
            self.torn = f"after {self.place}: the compressed file ends before its end mark"
        except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError) as error:
            self.wrong("a file that can be read", harmless(error))

    # -- JSON Lines ----------------------------------------------------------------------------

    def lines(self, stream: IO[bytes]) -> Iterator[Batch]:
        """The batches of JSON Lines."""
        while raw := stream.readline(MAX_BATCH + 1):
            self.number += 1
            if len(raw) > MAX_BATCH:
                self.wrong(f"a line of at most {MAX_BATCH:,} bytes", "a longer one")
            try:
                found: Plain = json.loads(raw)
            except (ValueError, RecursionError) as error:
                if not raw.endswith(b"\n"):
                    self.torn = f"{self.place}: it breaks off after {len(raw):,} bytes"
                    return
                what = raw[:100].decode("utf-8", "replace").strip()
                self.wrong(
                    "a batch of events in JSON",
                    f"{harmless(what, 100)!r} ({harmless(error)})" if what else "a blank line",
                )
            number: Plain = None
            topic = ""
            if isinstance(found, dict):
                number, topic = found.get("seq"), str(found.get("topic") or "")
                found = found.get("batch", found)
            if number is not None and type(number) is not int:
                self.wrong("seq to be a whole number", shown(number, 100))
            if (isinstance(found, dict) and "type" in found) or (
                isinstance(found, list) and found and isinstance(found[0], str)
            ):
                found = [0, [found]]
            yield self.batch(found, number, topic, raw.strip())

    # -- msgpack -------------------------------------------------------------------------------

    def messages(self, stream: IO[bytes]) -> Iterator[Batch]:
        """The batches of a file in msgpack."""
        try:
            import msgpack
        except ImportError:
            raise StreamError(self.file, "", "JSON Lines", f"something else; {NEEDS}") from None
        self.unit = "message"
        counted = Counted(stream)
        unpacker = msgpack.Unpacker(counted, raw=False, strict_map_key=False, max_buffer_size=MAX_BATCH)
        while True:
            begun = unpacker.tell()
            self.number += 1
            try:
                found = unpacker.unpack()
            except msgpack.OutOfData:
                self.number -= 1
                if counted.bytes > begun:
                    self.torn = f"message {self.number + 1} (from byte {begun:,}): it breaks off"
                return
            except (ValueError, RecursionError, msgpack.exceptions.UnpackException) as error:
                self.wrong(f"a message in msgpack from byte {begun:,}", harmless(error) or type(error).__name__)
            number, topic = None, ""
            if isinstance(found, list) and len(found) >= FRAMES - 1 and isinstance(found[-1], bytes):
                number, topic, payload = self.framed(found)
                if number == END:
                    continue
                try:
                    found = msgpack.unpackb(payload, raw=False, strict_map_key=False)
                except (ValueError, RecursionError, msgpack.exceptions.UnpackException) as error:
                    self.wrong("a batch in msgpack in the last frame", harmless(error) or type(error).__name__)
            yield self.batch(found, number, topic, repr(found).encode())

    def framed(self, frames: list[Plain]) -> tuple[int, str, bytes]:
        """The number, the topic and the packed batch of a message."""
        number, payload = frames[-2], frames[-1]
        assert isinstance(payload, bytes)
        if isinstance(number, bytes) and len(number) == NUMBER:
            number = int.from_bytes(number, "big", signed=True)
        if type(number) is not int:
            self.wrong(f"frames [topic, number in {NUMBER} bytes, batch]", shown(frames, 100))
        topic = frames[-FRAMES] if len(frames) >= FRAMES else ""
        return number, topic.decode("utf-8", "replace") if isinstance(topic, bytes) else str(topic), payload

    # -- both ----------------------------------------------------------------------------------

    def batch(self, found: Plain, number: int | None, topic: str, raw: bytes) -> Batch:
        """The batch in a message; ``raw``: what it is known again by."""
        try:
            events, rank = parts_of(found)
            told = events_of(cast("Plain", events), self.ignored if self.passes_over else None)
            publisher = publisher_of(topic, rank)
        except FormError as error:
            self.wrong(error.expected, error.got)
        return Batch(self.number, publisher, number, told, hashlib.blake2b(raw, digest_size=16).digest())
