"""The target that a process is: what it says of itself, and the caches that it makes.

A process has one cache at a time, and goes on with the next one when the suite has let go of that.  Where several are
alive at once, as when two of them are compared, there are as many processes.
"""

from __future__ import annotations

import gc
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar, cast

from kvlitmus.conformance.isolation.remote.adapter import FRESH, Calls, RemoteCache, Usual, adapter_class
from kvlitmus.conformance.isolation.remote.apart import APART
from kvlitmus.conformance.isolation.remote.fault import RemoteFault
from kvlitmus.conformance.isolation.remote.process import Line
from kvlitmus.conformance.isolation.remote.processor import Processor
from kvlitmus.conformance.ports import PORTS, Config, Profile, Unsupported
from kvlitmus.conformance.run.plan import KINDS
from kvlitmus.conformance.run.results import config_from_json, profile_from_json, to_json
from kvlitmus.conformance.run.targets import TargetError
from kvlitmus.conformance.support.text import closest, harmless, shown
from kvlitmus.conformance.support.version import version
from kvlitmus.conformance.tape.forms import Json

Told = TypeVar("Told")
Field = TypeVar("Field")

PROTOCOL = 1
"""The version of what is spoken."""

OLDEST = 1
"""The version that a process speaks which doesn't say."""

RENEW = (
    "copy the protocol's part of the kit anew ('kvlitmus init-adapter --lang' writes it), or take the other kvlitmus"
)
"""What to do where the versions differ."""

MANY = 6
"""With so many caches alive it is looked whether some are garbage that nobody has collected yet."""

METHODS: Mapping[str, Sequence[str]] = {**PORTS, "lookup": ("match",)}
"""The methods of what a process may say that it has: the ports, and ``lookup`` of whoever has no tree but can match."""

FIELDS = ("ports", "profile", "version", "configs", "pools")
"""What a process may say of itself; the ports it must."""

KINDS_IN_WORDS: Mapping[type, str] = {dict: "an object", list: "a list", str: "a text"}


class RemoteTarget:
    """A target that is a process.

    command: the program and its arguments.  ports: those of its caches, unless making one says others.
    Raises :class:`TargetError` where the process doesn't start, or doesn't say what it is.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = tuple(command)
        self.name = harmless(" ".join(self.command), 200)
        self._alone: Collection[str] = frozenset()
        self._idle: list[Line] = []
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self._processor = Processor()
        self._asked: defaultdict[Config, dict[Calls, Usual]] = defaultdict(dict)
        self._alive: weakref.WeakSet[RemoteCache] = weakref.WeakSet()
        line, hello = self._started()
        self._idle.append(line)
        self.ports = self._ports(hello.get("ports"))
        self.profile: Profile = self._field(hello, "profile", {}, profile_from_json)
        self.configs = self._field(hello, "configs", [], lambda told: tuple(map(config_from_json, told)))
        self.pools = self._field(hello, "pools", [], lambda told: tuple(map(str, told)))
        self.version = self._field(hello, "version", "", str)
        if "pool" not in self.ports:  # else it is judged as a cache first
            self.capabilities = self.ports & KINDS.keys()

    def make(self, config: Config) -> RemoteCache:
        """A fresh cache; raises :class:`Unsupported`, and :class:`RemoteFault` where the process fails at it."""
        if self._alive and not self._idle:
            gc.collect(1 if len(self._alive) < MANY else 2)  # costs less than to start a process
        looks = [one for one in self._asked[config].get(FRESH, ()) if one not in self._alone]
        try:
            return self._make(config, looks)
        except RemoteFault:
            if not looks or not self._looking_fails(config, looks):
                raise
        return self._make(config, [])  # whoever looks at it sees what fails

    def _looking_fails(self, config: Config, looks: Sequence[str]) -> bool:
        """Whether a process fails at one of these looks; raises :class:`RemoteFault` if it fails without them."""
        made = self._make(config, [])
        try:
            for look in looks:
                with suppress(Exception):
                    getattr(made, look)()
        except RemoteFault:
            return True
        return False

    def _make(self, config: Config, looks: list[str]) -> RemoteCache:
        """A fresh cache, and these looks at it."""
        self._idle[:] = [line for line in self._idle if line.open]  # the process of another cache may have ended
        line = self._idle.pop() if self._idle else self._started()[0]
        message = {"make": to_json(config)}
        answer = line.ask({**message, "looks": cast("Json", looks)} if looks else message)
        if "made" in answer:
            ports = self._ports(answer["ports"]) if "ports" in answer else self.ports
            kind = adapter_class(frozenset(name for port in ports for name in METHODS[port]))
            made = kind(line, self._asked[config], self._alone)
            made.see(answer)
            self._alive.add(made)
            weakref.finalize(made, self._idle.append, line).atexit = False
            return made
        self._idle.append(line)
        if "unsupported" in answer:
            raise Unsupported(harmless(answer["unsupported"]))
        if isinstance(raised := answer.get("raised"), str):
            raise RuntimeError(harmless(raised))
        raise line.odd('was answered by neither "made" nor "unsupported"', shown(answer).encode())

    def look_alone(self, looks: Collection[str]) -> Collection[str]:
        """The next caches are asked for these looks by messages of their own; returns for which they were until now."""
        before, self._alone = self._alone, looks
        return before

    def on_one_processor(self) -> AbstractContextManager[None]:
        """Meanwhile this thread and the processes that are there share a processor (:mod:`.processor`)."""
        return self._processor.with_all(self._lines)

    def _started(self) -> tuple[Line, dict[str, Json]]:
        """A process that has said what it is."""
        self._processor.part()  # what starts finds all processors
        try:
            line = Line(self.command, self._processor.part)
        except OSError as error:
            raise TargetError(f"{self.name} can't be started: {error.strerror}") from error
        self._lines.add(line)
        try:
            said = line.ask({"hello": {"kvlitmus": version(), "protocol": PROTOCOL}})
        except RemoteFault as fault:
            raise TargetError(f'{self.name} didn\'t say hello: the question {{"hello": …}} {fault}') from fault
        if "refused" in said:
            line.close()
            raise TargetError(harmless(f"{self.name} refuses: {said['refused']}; {RENEW}", 500))
        theirs = said.get("protocol", OLDEST)
        if type(theirs) is not int or theirs != PROTOCOL:
            line.close()
            told = f"{self.name} speaks protocol {shown(theirs)}, and kvlitmus {version()} speaks {PROTOCOL}; {RENEW}"
            raise TargetError(harmless(told, 500))
        hello = said.get("hello")
        if not isinstance(hello, dict) or (unknown := sorted(hello.keys() - FIELDS)):
            line.close()
            got = f"the field {unknown[0]!r}" if isinstance(hello, dict) else shown(hello)
            raise TargetError(
                harmless(f'{self.name}: expected {{"hello": {{…}}}} with {", ".join(FIELDS)}; got {got}', 500)
            )
        return line, hello

    def _field(self, hello: Mapping[str, Any], name: str, default: Told, read: Callable[[Told], Field]) -> Field:
        """Something that a process says of itself, which must be of the kind that is there by default."""
        told = hello.get(name, default)
        try:
            if type(told) is not type(default):
                raise TypeError(f"expected {KINDS_IN_WORDS[type(default)]}")
            return read(told)
        except (TypeError, ValueError) as error:
            raise TargetError(
                harmless(f"{self.name}: its {name} can't be read: {error} (got {shown(told)})", 500)
            ) from None

    def _ports(self, told: object) -> frozenset[str]:
        """The names of ports that a process says it has."""
        if not isinstance(told, list) or not told or not all(isinstance(one, str) for one in told):
            raise TargetError(f"{self.name}: its ports must be a list of names (got {shown(told)})")
        for name in cast("list[str]", told):
            if name not in METHODS:
                raise TargetError(f"{self.name}: there is no port {harmless(name, 60)!r}{closest(name, METHODS)}")
            if name in APART:
                raise TargetError(f"{self.name}: it can't have the port {name}: {APART[name]}")
        return frozenset(told)
