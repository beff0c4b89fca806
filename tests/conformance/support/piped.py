"""Any target of Python's behind a pipe: ``exec:python piped.py module:attribute``.

What the wrapped cache hands out as handles and receipts are numbers on the pipe; what it answers that JSON hasn't is
tagged, as on a tape.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

if __name__ == "__main__":
    sys.path[:1] = [str(Path(__file__).parent), str(Path.cwd())]

from kvlitmus.conformance.generate.schedule import describe
from kvlitmus.conformance.isolation.remote.adapter import HANDLE, goes_on
from kvlitmus.conformance.isolation.remote.apart import APART
from kvlitmus.conformance.isolation.remote.process import value_of
from kvlitmus.conformance.ports import PORTS, Unsupported, capabilities_of
from kvlitmus.conformance.run.plan import configs_of
from kvlitmus.conformance.run.results import config_from_json, to_json
from kvlitmus.conformance.run.targets import load_target, resolve_target
from kvlitmus.conformance.support.compact import compact
from kvlitmus.conformance.support.text import harmless, raised_text
from kvlitmus.conformance.tape.answers import exception_of
from kvlitmus.conformance.tape.calls import CALLS, DOES, LENT, TURNS
from kvlitmus.conformance.tape.changes import news
from kvlitmus.conformance.tape.compiled import LONG_INT, Rows
from kvlitmus.conformance.tape.forms import Json, Named
from kvlitmus.conformance.tape.operands import GIVES, TAKES, Operands, at, placed
from kvlitmus.conformance.tape.operands import HANDLE as HERE
from kvlitmus.spec.interface.ranks import GroupLost

PROTOCOL = 1
"""The version of what is spoken here."""

BEGUN = "component_begun"
"""The look that gives a handle in each of its rows."""


class Handles(Operands):
    """Handles as numbers, whatever the cache has them as."""

    def __init__(self) -> None:
        super().__init__(rows=Rows())
        self.handles: list[object] = []

    def number(self, handle: object) -> Named:
        """The number of a handle, a new one each time that it is handed out."""
        self.handles.append(handle)
        return Named(len(self.handles) - 1)

    def marked(self, method: str, answer: object) -> Any:
        """The answer with the number of the handle that it gives."""
        where = GIVES[method]
        if (handle := at(answer, where)) is None:
            return answer
        return placed(answer, where, self.number(handle))

    def begun(self, answer: object) -> object:
        """The copies that a cache has begun by itself, with the number of each one's handle."""
        if not isinstance(answer, list | tuple):
            return answer
        return [row if row[0] is None else (self.number(row[0]), *row[1:]) for row in answer]

    def meant_by(self, number: object) -> object:
        """The handle of a number; what is none is itself."""
        return self.handles[number] if type(number) is int and 0 <= number < len(self.handles) else number


class Server:
    """Serves one target on the process's own standard input and output."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.input = sys.stdin.buffer
        self.output = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self.start(None)

    def start(self, cache: Any) -> None:
        """A fresh cache is asked from now on."""
        self.cache = cache
        self.operands = Handles()
        self.lent = 0
        self.shown: dict[str, Json] = {}
        self.turns: dict[int, Generator[Any, Any, Any]] = {}

    def say(self, message: Mapping[str, object]) -> None:
        """Say one line."""
        self.output.write(compact(message).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """Hear one line; nobody there: that was all."""
        line = self.input.readline()
        if not line:
            sys.exit(0)
        return cast("dict[str, Any]", value_of(line.decode()))

    def serve(self) -> None:
        """Answer for ever."""
        while True:
            message = self.hear()
            answer = self.answer(message)
            if "then" in message:
                answer["then"] = self.further(message["then"], answer)
            riding = message.get("looks", ())
            if riding and ("call" in message or "made" in answer):  # of what could not be made nothing is seen
                answer["looks"] = {name: self.look(name) for name in riding}
            self.say(answer)

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a message, without its looks."""
        if "call" in message:
            answer = self.outcome(message["call"], message.get("args", []), message.get("kwargs", {}))
            if message["call"] in self.shown:
                self.shown[message["call"]] = answer.get("answer")
            return answer
        if "turn" in message:
            return self.turn(message)
        return self.make(message["make"]) if "make" in message else self.hello(message["hello"].get("protocol"))

    def further(self, calls: Sequence[dict[str, Any]], answer: dict[str, Any]) -> list[dict[str, Any]]:
        """The answers to the calls that follow in the same message, up to the first that raises or isn't wanted."""
        found = list[dict[str, Any]]()
        for one in calls:
            if not goes_on(answer, one):
                break
            args = one["args"]
            if HANDLE.json in args:
                handle = at(answer.get("answer"), HERE, written=True)
                args = [handle if arg == HANDLE.json else arg for arg in args]
            if None in args:
                break
            answer = self.outcome(one["call"], args, one.get("kwargs", {}))
            found.append(answer)
        return found

    def look(self, name: str) -> Json:
        """What a look shows, by what has changed since it was told last."""
        self.operands.step += 1
        try:
            found = getattr(self.cache, name)()
            if type(found) is not int or found.bit_length() > LONG_INT:
                found = CALLS[name].answered(found, self.operands)
        except Exception as error:  # noqa: BLE001 - it is told
            found = {"raised": raised_text(error)}
        told = news(self.shown.get(name), found)
        self.shown[name] = found
        return told

    def hello(self, theirs: object) -> dict[str, object]:
        """What the target says of itself, to who speaks the same protocol."""
        if theirs != PROTOCOL:
            return {"refused": f"it speaks protocol {PROTOCOL}, and was asked for {theirs}"}
        capabilities = frozenset(map(str, getattr(self.target, "capabilities", ())))
        hello = {
            "ports": [port for port in PORTS if port in (capabilities or PORTS) and port not in APART],
            "profile": describe(self.target.profile),
            "configs": to_json(configs_of(self.target)),
        }
        return {"hello": hello, "protocol": PROTOCOL}

    def make(self, config: dict[str, Any]) -> dict[str, object]:
        """A fresh cache."""
        try:
            self.start(self.target.make(config_from_json(config)))
        except Unsupported as why:
            return {"unsupported": harmless(why)}
        except Exception as error:  # noqa: BLE001 - it is told
            return {"raised": raised_text(error)}
        ports = capabilities_of(self.cache)
        return {"made": True, "ports": [port for port in PORTS if port in ports and port not in APART]}

    def outcome(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What came of a call."""
        self.operands.step += 1
        given, named = CALLS[name].given(args, kwargs, self.operands)
        for place in TAKES.get(name, ()):
            given[place] = self.operands.meant_by(given[place])
        if name in LENT:
            given[LENT[name]] = Borrowed(self, self.lent)
            self.lent += 1
        try:
            answer = getattr(self.cache, name)(*given, **named)
            if name == TURNS:
                self.turns[args[0]] = answer
                return self.went(args[0], lambda: next(answer))
            if name == BEGUN:
                answer = self.operands.begun(answer)
            return {"answer": CALLS[name].answered(answer, self.operands)}
        except Exception as error:  # noqa: BLE001 - it is told
            return {"raised": raised_text(error)}

    def turn(self, message: dict[str, Any]) -> dict[str, object]:
        """A rank goes on."""
        rank = message["turn"]
        turns, (_, resumed, _) = self.turns[rank], CALLS[TURNS].turns
        if message.get("closed"):
            turns.close()
            return {"answer": None}
        if "raised" in message:
            lost = GroupLost(message["raised"].partition(": ")[2])
            return self.went(rank, lambda: turns.throw(lost))
        got: Any = resumed.read(message["got"], self.operands)
        return self.went(rank, lambda: next(turns) if got is None else turns.send(got))

    def went(self, rank: int, go: Any) -> dict[str, object]:
        """What a rank enters next, or what it decided."""
        entered, _, decided = CALLS[TURNS].turns
        try:
            return {"enters": entered.write(go(), self.operands)}
        except StopIteration as stop:
            return {"answer": decided.write(stop.value, self.operands)}
        except Exception as error:  # noqa: BLE001 - it is told
            return {"raised": raised_text(error)}


class Borrowed:
    """What the suite has lent: each method asks it."""

    def __init__(self, server: Server, number: int) -> None:
        self._server, self._number = server, number

    def __getattr__(self, name: str) -> Any:
        if name not in DOES:
            raise AttributeError(name)

        def ask(*args: object) -> object:
            server = self._server
            told, _ = DOES[name].arguments(args, {}, server.operands)
            server.say({"ask": name, "args": told, "of": self._number})
            heard = server.hear()
            if "raised" in heard:
                from kvlitmus.conformance.checker.harness_store import StorageDownError  # which takes a while

                kind, _, text = heard["raised"].partition(": ")
                raise StorageDownError(text) if kind == StorageDownError.__name__ else exception_of(heard["raised"])
            return DOES[name].told(heard["told"], server.operands)

        return ask


if __name__ == "__main__":
    REF = resolve_target(sys.argv[1])
    sys.path[:0] = REF.folders
    SERVER = Server(load_target(REF))
    gc.freeze()  # what there is by now is no garbage
    SERVER.serve()
