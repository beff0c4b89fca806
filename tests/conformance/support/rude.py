"""A pool behind a pipe that has bad manners: ``exec:python -S rude.py KIND``.  It needs nothing but Python itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

CALLS = 12
"""So many calls are answered as they should be before the process shows how it is."""

MADE = 2
"""So many caches are made by one that makes no more."""


def say(message: object) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def hang_up_half_way() -> None:
    os.write(1, b'{"answer": [1, ')
    os._exit(0)


def close_and_live_on() -> None:
    os.close(1)
    time.sleep(600)


def leave_a_child() -> None:
    subprocess.Popen(["sleep", "600.25"], start_new_session=True)
    os._exit(3)


def say_last_words() -> None:
    os.write(2, b"\x1b[31mthread 'main' panicked at cache.rs:7\x1b[0m\n" + b"spam\n" * 100_000 + b"last words\n")
    os._exit(101)


def ignore_all(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


INSTEAD: dict[str, Callable[[], object]] = {
    "exits": lambda: os._exit(7),
    "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "half-a-line": hang_up_half_way,
    "closes": close_and_live_on,
    "leaves-a-child": leave_a_child,
    "last-words": say_last_words,
    "rubbish": lambda: os.write(1, b"Segmentation fault (just kidding)\n"),
    "no-text": lambda: os.write(1, b"\xff\xfe\x00{}\n"),
    "deep": lambda: os.write(1, b"[" * 100_000 + b"\n"),
    "digits": lambda: os.write(1, b'{"answer": ' + b"9" * 100_000 + b"}\n"),
    "no-object": lambda: os.write(1, b"[1, 2]\n"),
    "no-answer": lambda: os.write(1, b"{}\n"),
    "twice": lambda: os.write(1, b'{"answer": null}\n{"answer": null}\n'),
    "endless": lambda: [os.write(1, b"9" * (1 << 20)) for _ in range(1_000)],
    "asks": lambda: say({"ask": "put", "args": ["a", [1]]}),
    "asks-for-anything": lambda: say({"ask": "__class__", "args": []}),
    "odd-looks": lambda: say({"answer": None, "looks": 3}),
    "odd-change": lambda: say({"answer": None, "looks": {"available": {"~": [[["x"], 1, 2]]}}}),
    "odd-tag": lambda: say({"answer": {"$": "nothing", "of": 1}}),
    "text": lambda: say({"answer": "abc"}),
    "raises": lambda: say({"raised": "RuntimeError: no memory\x1b[31m"}),
    "raises-exit": lambda: say({"raised": "SystemExit: 3"}),
    "raises-a-number": lambda: say({"raised": 3}),
    "hangs": ignore_all,
}
"""What is done in place of an answer to ``alloc``, once the calls are over."""

HELLOS: dict[str, Callable[[], object]] = {
    "no-hello": lambda: os._exit(2),
    "hello-rubbish": lambda: os.write(1, b"hello\n"),
    "hello-no-ports": lambda: say({"hello": {}}),
    "hello-odd-port": lambda: say({"hello": {"ports": ["pol"]}}),
    "hello-raw": lambda: say({"hello": {"ports": ["pool", "raw"]}}),
    "hello-odd-profile": lambda: say({"hello": {"ports": ["pool"], "profile": {"reserved": -1}}}),
    "hello-odd-field": lambda: say({"hello": {"ports": ["pool"], "prots": []}}),
    "hello-refused": lambda: say({"refused": "it speaks protocol 7, and was asked for 1"}),
    "hello-later": lambda: say({"hello": {"ports": ["pool"]}, "protocol": 2}),
    "hello-odd-protocol": lambda: say({"hello": {"ports": ["pool"]}, "protocol": "1"}),
    "hello-odd-configs": lambda: say({"hello": {"ports": ["pool"], "configs": 4}}),
}
"""What is done in place of a hello."""


class Pool:
    """Pages that nobody has."""

    def __init__(self, config: dict[str, int]) -> None:
        self.size = config["page_size"]
        self.free = list(range(1, config["pages"] + 1))

    def call(self, name: str, args: list[object]) -> object:
        """One call of the port."""
        if name == "available":
            return len(self.free) * self.size
        if name == "free":
            slots: list[int] = args[0]  # type: ignore[assignment]
            self.free += [slot // self.size for slot in slots[:: self.size]]
            return None
        pages = int(str(args[0])) // self.size
        if pages > len(self.free):
            return None
        taken, self.free = self.free[:pages], self.free[pages:]
        return [page * self.size + at for page in taken for at in range(self.size)]


def main(kind: str) -> None:
    """Serve a pool, and then do as this kind does."""
    pool, calls, made = Pool({"page_size": 1, "pages": 1}), 0, 0
    for line in sys.stdin:
        message = json.loads(line)
        if "hello" in message:
            hello = {"ports": ["pool"], "version": "7", "configs": [{"page_size": 4}]}
            HELLOS[kind]() if kind in HELLOS else say({"hello": hello})
        elif "make" in message:
            if kind == "make-dies":
                os._exit(4)
            if kind == "make-odd":
                say({"maid": True})
                continue
            pool, calls, made = Pool(message["make"]), 0, made + 1
            if kind == "makes-two" and made > MADE:
                os._exit(4)
            if kind == "declines":
                say({"unsupported": "no\x1b[31m thanks"})
            elif "looks" not in message:
                say({"made": True})
            elif kind.startswith("look-"):
                INSTEAD[kind.removeprefix("look-")]()
            else:
                say({"made": True, "looks": {name: pool.call(name, []) for name in message["looks"]}})
        else:
            calls += 1
            if message["call"] == "available" and kind.startswith("look-"):
                INSTEAD[kind.removeprefix("look-")]()
                continue
            if message["call"] == "alloc" and calls > CALLS and kind in INSTEAD:
                INSTEAD[kind]()
                continue
            say({"answer": pool.call(message["call"], message["args"])})
            if kind == "chatters":
                os.write(2, b"\x1b[2Jallocated\n" * 1_000)


if __name__ == "__main__":
    main(sys.argv[1])
