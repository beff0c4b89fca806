"""The process of a cache, and the line to it: one JSON object a line, in each direction.

A process that ends, says what is no JSON object, says more than it was asked, or never ends its line costs one
:class:`~.fault.RemoteFault`, and nothing of it is left.  How long it may take is not known here: a call that doesn't
come back is the worker's, which its supervisor ends together with all that it has started.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from time import monotonic, sleep

from kvlitmus.conformance.isolation.process import (
    LINE_BYTES,
    OF_WORKER,
    OUTPUT_BYTES,
    Death,
    Piped,
    kill_group,
    kill_marked,
    status_of,
)
from kvlitmus.conformance.isolation.remote.fault import RemoteFault
from kvlitmus.conformance.support.compact import compact
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.forms import Json

GRACE_SECONDS = 2.0
"""So long a process may take to end after it has closed its line."""

LOOK = 200
"""After so many milliseconds without a word it is looked whether the process is still there."""

CHUNK = 1 << 16

MARK = "KVLITMUS_REMOTE"
"""The environment variable by which all that a process has started is known."""

NUMBERS = count()

ENDS, FORM = "PORT-02", "PORT-03"

first_in = json.JSONDecoder().raw_decode
"""Reads the value that a text begins with, and says where it ends."""


class Line(Piped):
    """A process and the line to it; raises ``OSError`` where it can't be started.

    What it prints on its standard error goes to that of this process, and a little of it is kept for whoever is told
    how it ended.  on_wait: who is told that an answer is long in coming.
    """

    def __init__(self, command: Sequence[str], on_wait: Callable[[], None] = lambda: None) -> None:
        self.command = command
        self.on_wait = on_wait
        mark = f"{os.getpid()}-{next(NUMBERS)}"
        super().__init__(command, {**os.environ, MARK: mark, OF_WORKER: str(os.getpid())})
        self.end = weakref.finalize(self, finish, self.popen, mark)
        self.said = bytearray()
        self.printed = bytearray()
        self.open = True
        self.poll = select.poll()
        self.files = {self.pipe(which).fileno(): which for which in (0, 1, 2)}
        self.input, self.output = (self.pipe(which).fileno() for which in (0, 1))
        self.answered = [(self.output, select.POLLIN)]
        for file, which in self.files.items():
            if which:
                self.poll.register(file, select.POLLIN)

    def ask(self, message: Mapping[str, Json]) -> dict[str, Json]:
        """Say one thing, and hear one; raises :class:`RemoteFault`."""
        if not self.open:
            raise RemoteFault(ENDS, "was made on a cache whose process has ended")
        if came := self.poll.poll(0):
            self.take(came)
        if self.said:
            raise self.odd("was made when the process had said what nobody asked", bytes(self.said))
        self.write(compact(message).encode() + b"\n")
        return self.heard()

    def write(self, data: bytes) -> None:
        """Say this, while what the process says is heard: neither may wait for the other for ever."""
        file, left = self.input, memoryview(data)
        while left:
            try:
                left = left[os.write(file, left) :]
            except BlockingIOError:
                self.poll.register(file, select.POLLOUT)
                self.read(LOOK)
                self.poll.unregister(file)
            except OSError:
                raise self.ended() from None

    def heard(self) -> dict[str, Json]:
        """The next line, which must be an object."""
        line = self.line()
        try:
            found = value_of(line.decode())
        except (ValueError, RecursionError) as error:
            raise self.odd(f"was answered with what is no JSON ({harmless(error, 100)})", line) from None
        if self.said:
            raise self.odd("was answered more than once", bytes(self.said))
        if not isinstance(found, dict):
            raise self.odd("was answered with JSON that is no object", line)
        return found

    def line(self) -> bytes:
        """The next line, mostly what comes at once."""
        if self.poll.poll(LOOK) == self.answered and not self.said:
            data = os.read(self.output, CHUNK)
            if data.find(b"\n") == len(data) - 1 and data:
                return data
            self.hear(data)
        while (end := self.said.find(b"\n")) < 0:
            self.read(LOOK)
        line = bytes(self.said[:end])
        del self.said[: end + 1]
        return line

    def read(self, milliseconds: int) -> None:
        """Take what comes within this time; raises :class:`RemoteFault` at the end, and where a line has none."""
        came = self.poll.poll(milliseconds)
        if not came:
            self.on_wait()
            if status_of(self.pid) is not None:
                raise self.ended()  # another process has its end of the line, and may keep it open for ever
        self.take(came)

    def take(self, came: Iterable[tuple[int, int]]) -> None:
        """Take what there is in these files."""
        for file, _ in came:
            which = self.files[file]
            try:
                data = os.read(file, CHUNK) if which else b""
            except BlockingIOError:
                continue
            if which == 1:
                self.hear(data)
            elif which == 2:
                self.note(data)
                if not data:
                    self.poll.unregister(file)

    def hear(self, data: bytes) -> None:
        """Keep what was said; that nothing is said any more is the end."""
        if not data:
            raise self.ended()
        self.said += data
        if len(self.said) > LINE_BYTES and self.said.find(b"\n") < 0:
            raise self.odd(f"was answered with a line of more than {LINE_BYTES >> 20} MiB", bytes(self.said))

    def note(self, data: bytes) -> None:
        """Keep the beginning and the end of what is printed, and pass it on."""
        with suppress(OSError):
            os.write(2, data)
        self.printed += data
        if len(self.printed) > 4 * OUTPUT_BYTES:
            del self.printed[OUTPUT_BYTES:-OUTPUT_BYTES]

    def odd(self, what: str, got: bytes) -> RemoteFault:
        """Something was said that the protocol doesn't know: nothing that follows can be trusted."""
        self.close()
        shown = harmless(got[:120].decode(errors="replace").strip())
        return RemoteFault(FORM, f"{what}: {shown}{self.words()}")

    def ended(self) -> RemoteFault:
        """The process has closed its line: how it has ended, or that it goes on without."""
        until = monotonic() + GRACE_SECONDS
        while (status := status_of(self.pid)) is None and monotonic() < until:
            sleep(0.002)
        half = bytes(self.said)
        self.close()
        if status is None:
            text = "closed its end of the line"
        else:
            text = Death(kind="exit" if status >= 0 else "signal", number=abs(status)).text
        if half:
            text += f" in the middle of a line: {harmless(half[:120].decode(errors='replace'))}"
        return RemoteFault(ENDS, text + self.words())

    def words(self) -> str:
        """What it has printed, as the end of a sentence."""
        text = harmless(self.printed.decode(errors="replace").strip().replace("\n", " ⏎ "), 500)
        return f"; it had printed: {text}" if text else ""

    def close(self) -> None:
        """End the process, and all that it has started."""
        if not self.open:
            return
        self.open = False
        with suppress(OSError):
            self.note(os.read(self.pipe(2).fileno(), CHUNK))
        self.said.clear()
        self.end()


def value_of(text: str) -> Json:
    """The value that a line is; raises as :func:`json.loads` does."""
    found: Json
    try:
        found, end = first_in(text)
        if text[end:] in ("", "\n"):
            return found
    except ValueError:
        pass  # it begins with a space, or is told what it is below
    found = json.loads(text)
    return found


def finish(popen: subprocess.Popen[bytes], mark: str) -> None:
    """End a process and all that it has started, and let go of its pipes."""
    kill_group(popen.pid)
    kill_marked(mark, MARK)
    popen.wait()
    for pipe in (popen.stdin, popen.stdout, popen.stderr):
        if pipe is not None:
            pipe.close()
