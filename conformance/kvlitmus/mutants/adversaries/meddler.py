"""A correct cache, and somebody before it who meddles with one of its calls now and then."""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.spec.ledger.cells import Line
from kvlitmus.spec.ledger.read import LEDGER

EVERY = 3
"""One call in so many is meddled with."""

LOOKS = frozenset(one.call for one in LEDGER if one.look) | {"match", "component_match"}
"""Calls that ask what there is: what waits, waits on."""


class Undone(Exception):
    """An act can't be done, and nothing was: the call is made as it was meant."""


class Asked(NamedTuple):
    """A call as it was made: the cache that would have had it, its arguments, how it is made; ``made`` counts acts."""

    cache: Any
    config: Config
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    call: Callable[..., Any]
    made: list[int]

    def done(self) -> None:
        """It was meddled with."""
        self.made[0] += 1

    def again(self, *args: Any) -> Any:
        """Make it, with other arguments if there are any."""
        return self.call(*(args or self.args), **self.kwargs)


Act = Callable[[Asked], Any]
"""What is done instead of a call; raises :class:`Undone` where it can't be."""


class Meddling(NamedTuple):
    """With which row is meddled, by which act.

    ``alone``: on the last rank only.  ``late``: instead of an act, a call waits until the next one is over.
    """

    line: Line
    act: Act | None
    alone: bool = False
    late: bool = False


def plain(value: Any) -> Any:
    """What of an argument is the same in each run: what a caller would call a key."""
    if isinstance(value, Mapping):
        return [(plain(name), plain(one)) for name, one in value.items()]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, int | str | bytes | None) else "…"


def says_nothing(value: Any) -> bool:
    """Whether nothing in an argument tells one call from another."""
    return isinstance(value, str | bool) or (isinstance(value, list) and all(map(says_nothing, value)))


class Meddler:
    """The cache as the suite sees it.

    Which calls are meddled with follows from their arguments, so that who asks again gets the same; where these say
    nothing, it is the first of every three.  ``made`` counts.
    """

    def __init__(self, inner: Any, config: Config, meddling: Meddling, made: list[int]) -> None:
        self._inner, self._config, self._meddling, self._made = inner, config, meddling, made
        self._numbers: dict[object, itertools.count[int]] = {}
        self._waiting: list[Callable[[], Any]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == self._meddling.line.call:
            return lambda *args, **kwargs: self._called(found, args, kwargs)
        if self._waiting and name not in LOOKS:
            return lambda *args, **kwargs: self._caught_up(found, args, kwargs)
        return found

    def _caught_up(self, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Make a call, and then what waited for it."""
        waiting, self._waiting = self._waiting, []
        try:
            return call(*args, **kwargs)
        finally:
            for one in waiting:
                with contextlib.suppress(Exception):  # a reset may have come between, and nothing be left to be done
                    one()

    def _called(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        meddling = self._meddling
        if self._waiting:
            return self._caught_up(call, args, kwargs)
        if not is_meant(meddling, self._inner, args, kwargs) or not self._chosen(args):
            return call(*args, **kwargs)
        if meddling.late:
            self._made[0] += 1
            self._waiting.append(lambda: call(*args, **kwargs))
            return None
        assert meddling.act is not None
        try:
            return meddling.act(Asked(self._inner, self._config, args, kwargs, call, self._made))
        except Undone:
            return call(*args, **kwargs)

    def _chosen(self, args: tuple[Any, ...]) -> bool:
        rank, key = None, plain(args)
        if self._meddling.line.call == "ranks_ask":
            rank, ask = args
            key = [*ask.key, *[ask.rid] * bool(ask.rid), *[ask.pages] * bool(ask.pages)]
        if says_nothing(key):
            return next(self._numbers.setdefault(rank, itertools.count(1))) % EVERY == 1  # the same on each rank
        return zlib.crc32(repr(key).encode()) % EVERY == 0


def is_meant(meddling: Meddling, inner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call is of the row that is meddled with: of its way, and on its rank."""
    line = meddling.line
    if line.call == "ranks_ask":
        return bool(args[1].what == line.how and (not meddling.alone or args[0] == max(inner.ranks)))
    if line.call == "ranks_local":
        return bool(args[0].what == line.how and (not meddling.alone or args[0].rank == max(inner.ranks)))
    if line.call == "end":
        return bool(kwargs["keep"] == (line.how == "kept"))
    if line.call == "advance":
        return line.how in WAYS_ON and WAYS_ON[line.how](kind_of(inner, args[0]), args[1].how == "fail")
    return True


def kind_of(inner: Any, job: int) -> str:
    """Of which kind a job is."""
    return next((one.kind for one in inner.jobs() if one.id == job), "")


WAYS_ON: Mapping[str, Callable[[str, bool], bool]] = {
    "a copy has landed": lambda kind, failed: kind in ("backup", "load") and not failed,
    "a copy has failed": lambda kind, failed: kind in ("backup", "load") and failed,
    "a query": lambda kind, _: kind == "query",
    "a fetch": lambda kind, _: kind == "fetch",
    "a put": lambda kind, _: kind == "put",
}
"""Which way of going on a row of ``advance`` is, by the job's kind and whether it fails."""


class MeddledTarget:
    """A target with somebody before it; ``made``: how often it was meddled with."""

    def __init__(self, base: Any, meddling: Meddling) -> None:
        self.base, self.meddling = base, meddling
        self.made = [0]
        self.profile: Profile = base.profile
        self.capabilities = getattr(base, "capabilities", ())
        self.pools = getattr(base, "pools", ())

    def make(self, config: Config) -> Meddler:
        """A fresh cache, meddled with."""
        return Meddler(self.base.make(config), config, self.meddling, self.made)
