"""The ports of a cache behind a pipe: one message a call, and with its answer come the looks that follow it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import cast

from kvlitmus.conformance.isolation.remote.fault import RemoteFault
from kvlitmus.conformance.isolation.remote.process import Line
from kvlitmus.conformance.ports.compose import HANDED, Part, ToldOfRequests, one_by_one
from kvlitmus.conformance.support.text import raised_text, shown
from kvlitmus.conformance.tape.answers import exception_at
from kvlitmus.conformance.tape.calls import CALLS, DOES, LENT, LOOKS, TOLD_ONCE, TURNS, look_key
from kvlitmus.conformance.tape.changes import MARK, changed, same
from kvlitmus.conformance.tape.compiled import Rows
from kvlitmus.conformance.tape.forms import Form, FormError, Json, Named
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.conformance.tape.written import raised_in
from kvlitmus.spec.interface.cache import NodeView, View
from kvlitmus.spec.interface.ranks import GroupLost
from kvlitmus.spec.words.units import Key

Message = dict[str, Json]

Calls = tuple[str, ...]

NEVER = (object(), None)
"""A look that has shown nothing, and what that was read as."""

FRESH: Calls = ()
"""No calls: a fresh cache."""

PARTS = 7
"""So many calls before one are remembered."""

DOUBT = 2
"""So often calls came without a look before it comes with them no more."""

Usual = dict[str, int]
"""The looks that are made after such calls; how often such calls came since each was."""

HANDLE = Named({"@": "handle"})
"""How it is told that an argument is the handle that the call before gave."""

ASKS = 100_000
"""So often a cache may call back within one call."""

RIDING = LOOKS - TOLD_ONCE
"""The looks that may come with an answer; the others take away what they see, so only who asks for them gets them."""


class RemoteCache(ToldOfRequests):
    """One cache of a process; the classes that :func:`adapter_class` makes have the ports' methods.

    lent: what the suite has lent, in order; holds: the one of these that is asked where the cache doesn't say.
    seen: what came with the last answer and nobody has looked at yet, by look; still: all that has been seen since the
    last call.  last: what was told of each look last,
    which changes are of; shown: what was read of it.  since: the calls since the last look.  asked: the looks after
    such calls, as they were made lately in such a configuration, by whatever cache; behind no calls all that ever
    were; usual: those after the last call.  alone: looks that are asked for by messages of their own, so that it is
    known which of them fails.
    """

    piped = True
    """What the checker knows such a cache by."""

    def __init__(self, line: Line, asked: dict[Calls, Usual], alone: Collection[str] = ()) -> None:
        self._line = line
        self._operands = Operands(rows=Rows())
        self._lent: list[object] = []
        self._holds = -1
        self._seen: dict[str, Json] = {}
        self._still: dict[str, Json] = {}
        self._last: dict[str, Json] = {}
        self._shown: dict[str, tuple[object, object]] = {}
        self._asked = asked
        self._usual = asked.setdefault(FRESH, {})
        self._alone = alone
        self._since = FRESH
        self._looked = False

    def _call(self, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        message = self._message(name, args, kwargs)
        self._ride(message, (name,))
        held, at = self._holds, LENT.get(name)
        if at is not None:
            self._holds = len(self._lent)
            self._lent.append(args[at])
        try:
            answer = self._told(name, self._exchange(message))
        except BaseException:
            self._holds = held
            raise
        if answer is False:
            self._holds = held  # the storage was refused: the one before is in use
        return answer

    def _ride(self, message: Message, names: Calls) -> None:
        """Ask for the looks that usually come after these calls."""
        before = ("parts",) if self.composing else ()
        since = self._since = (*before, *names) if self._looked else (*(self._since or before)[-PARTS:], *names)
        self._looked = False
        usual = self._asked.get(since)
        if usual is None:  # a step is looked at in all ways, a part of one in none, as far as is known
            usual = {} if before else dict.fromkeys(self._asked[FRESH], 0)
        usual = self._usual = self._asked[since] = {one: doubt + 1 for one, doubt in usual.items() if doubt < DOUBT}
        if usual and (riding := self._riding(usual)):
            message["looks"] = riding

    def together(self, parts: Sequence[Part]) -> Iterator[object]:
        """See :class:`ToldOfRequests`: in one message; those that the process leaves out follow one by one.

        Where looks are made alone it is to be known which call fails, too.
        """
        if len(parts) == 1 or self._alone:
            yield from one_by_one(self, parts)
            return
        message, *then = [
            self._message(one.method, [HANDLE if arg is HANDED else arg for arg in one.args], one.kwargs)
            for one in parts
        ]
        for part, one in zip(parts[1:], then, strict=True):
            if part.only is not None:
                one["if"] = part.only
        message["then"] = [*then]
        self._ride(message, tuple([one.method for one in parts]))
        told, answer = self._exchange(message), None
        answers = [told, *self._further(told.get("then", []), len(then))]
        for one, before in zip(then, answers[:-1], strict=False):
            if not goes_on(before, one):
                raise self._odd(f"to {one['call']}, which was not to be made", told)
        for part, one in zip(parts, answers, strict=False):
            answer = self._told(part.method, one)
            yield answer
        yield from one_by_one(self, parts[len(answers) :], answer)

    def _further(self, told: Json, most: int) -> list[Message]:
        """The answers to the calls of a message after the first."""
        if type(told) is not list or len(told) > most or not all(type(one) is dict for one in told):
            raise self._odd(f"with what is no list of at most {most} more answers", told)
        return cast("list[Message]", told)

    def uncalled(self) -> None:
        """See :class:`ToldOfRequests`; that looking changes nothing is seen at the end of a play."""
        self._seen = {key: seen for key, seen in self._still.items() if key in RIDING}

    def foreseen(self, key: Key) -> tuple[int, int] | None:
        """See :class:`ToldOfRequests`: by a snapshot, where there is one."""
        available, told = self.still("available"), self._still.get("view")
        known, view = self._shown.get("view", NEVER)
        if type(available) is not int or known is not told or type(view) is not View:
            return None
        try:
            return common(key, view.nodes), available
        except (TypeError, ValueError):  # no node is as promised: whoever looks at them says so
            return None

    def _riding(self, looks: Iterable[str]) -> list[Json]:
        """Those of these looks that may come with an answer."""
        return [one for one in looks if one not in self._alone] if self._alone else [*looks]

    def _message(self, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Message:
        told, named = CALLS[name].arguments(args, kwargs, self._operands)
        message: Message = {"call": name, "args": told}
        if named:
            message["kwargs"] = named
        return message

    def _exchange(self, message: Message) -> Message:
        """The answer to a message, once all that the cache asks meanwhile is answered; its looks are kept."""
        answer, asks = self._line.ask(message), 0
        while "ask" in answer and asks < ASKS:
            answer, asks = self._line.ask(self._asked_back(answer)), asks + 1
        self.see(answer)
        return answer

    def see(self, answer: Message) -> None:
        """Keep the looks that came with an answer; what nobody has looked at since the one before is out of date."""
        looks = answer.get("looks") or {}
        if not isinstance(looks, dict):
            raise self._odd("with looks that are no object", looks)
        last = self._last
        for key, told in looks.items():
            if type(told) is dict:
                looks[key] = last[key] if told == {MARK: []} and key in last else self._changed(key, told)
            else:
                last[key] = told
        self._seen, self._still = looks, looks.copy()

    def still(self, look: str) -> object:
        """What this look showed after the last call, if it was made then."""
        found = self._still.get(look)
        if found is not None and look in self._usual:
            self._usual[look] = 0
        return found

    def _asked_back(self, asked: Message) -> Message:
        """What something of the suite's answers to the cache."""
        name, args, of = asked["ask"], asked.get("args", []), asked.get("of", self._holds)
        if not isinstance(name, str) or name not in DOES or not isinstance(args, list):
            raise self._odd(f"by asking for what is none of {', '.join(DOES)}", asked)
        if type(of) is not int or not 0 <= of < len(self._lent) or not hasattr(self._lent[of], name):
            raise self._odd("by asking for what the suite has not lent", asked)
        try:
            given, _ = DOES[name].given(args, {}, self._operands)
            return {"told": DOES[name].answered(getattr(self._lent[of], name)(*given), self._operands)}
        except Exception as error:  # noqa: BLE001 - storage that fails on demand, or arguments that it can't take
            return {"raised": raised_text(error)}

    def _look(self, name: str, args: Sequence[object]) -> object:
        told: list[Json] = []
        key = name
        if args:
            told = CALLS[name].arguments(args, {}, self._operands)[0]
            key = look_key(name, told)
        rides = key in RIDING and key not in self._alone
        if rides:
            self._usual[key] = 0
        if key in self._seen:
            seen = self._seen.pop(key)  # who looks again wants to see whether looking has changed anything
        else:
            answer = self._exchange(self._look_asked(name, told, rides=rides))
            if "answer" not in answer:
                return self._told(name, answer)
            seen = self._still[key] = self._changed(key, answer["answer"])
            if rides:
                self._asked[FRESH][key] = 0
        self._looked = True
        known, value = self._shown.get(key, NEVER)
        if known is not seen or name not in RIDING:
            if type(seen) is dict and (raised := raised_in(seen)) is not None:
                raise exception_at(raised)
            value = seen if type(seen) is int else self._told(name, {"answer": seen})
            self._shown[key] = seen, value
        return value

    def _look_asked(self, name: str, told: list[Json], *, rides: bool) -> Message:
        """The message that asks for a look alone; whoever looks at one thing looks at all."""
        message: Message = {"call": name, "args": told}
        if rides and (riding := [one for one in self._riding(self._asked[FRESH]) if one != name]):
            message["looks"] = riding
        return message

    def _changed(self, key: str, told: Json) -> Json:
        """What a look shows, which may be told as a change."""
        try:
            self._last[key] = found = changed(self._last.get(key), told)
            return found
        except FormError as error:
            raise self._odd(f"with a look at {key} that is not {error.expected}", error.got) from None

    def _told(self, name: str, answer: Message, form: Form | None = None) -> object:
        """What was answered, or raised."""
        if "answer" in answer:
            try:
                if form is not None:
                    return form.read(answer["answer"], self._operands)
                return CALLS[name].told(answer["answer"], self._operands)
            except FormError as error:
                raise self._odd(f"by what should be {error.expected}", error.got) from None
        raised = answer.get("raised")
        if not isinstance(raised, str):
            raise self._odd('by neither "answer" nor "raised"', cast("Json", answer))
        raise exception_at(raised)

    def _turns(self, args: Sequence[object]) -> Generator[object, object, object]:
        """A call on one rank: what it enters, until it has decided."""
        entered, resumed, decided = CALLS[TURNS].turns
        answer = self._exchange(self._message(TURNS, args, {}))
        while "enters" in answer:
            turn: Message = {"turn": cast("Json", args[0])}
            try:
                got = yield entered.read(answer["enters"], self._operands)
                turn["got"] = resumed.write(got, self._operands)
            except GroupLost as lost:
                turn["raised"] = raised_text(lost)
            except GeneratorExit:
                self._exchange({**turn, "closed": True})
                raise
            answer = self._exchange(turn)
        return self._told(TURNS, answer, decided)

    def _odd(self, what: str, got: object) -> RemoteFault:
        return self._line.odd(f"was answered {what}", shown(got).encode())


def goes_on(before: Message, call: Message) -> bool:
    """Whether a call of a message is to be made after this answer to the one before."""
    if "if" not in call or "answer" not in before:
        return "answer" in before
    wanted, answer = call["if"], before["answer"]
    if type(wanted) is not dict:
        return same(wanted, answer)
    return type(answer) is dict and all(same(one, answer.get(name)) for name, one in wanted.items())


def common(key: Key, nodes: Sequence[NodeView]) -> int:
    """How many units of a key these nodes hold, each behind its parent."""
    units, best = key.units, 0
    ends: dict[object, int] = {-1: 0}
    for at, (parent, namespace, own, *_) in enumerate(nodes):
        start = ends.get(parent)
        if start is None or (parent == -1 and namespace != key.namespace):
            continue
        shared = next((n for n, (a, b) in enumerate(zip(units[start:], own, strict=False)) if a != b), None)
        end = start + (min(len(units) - start, len(own)) if shared is None else shared)
        best = max(best, end)
        if end == start + len(own):
            ends[at] = end
    return best


@cache
def adapter_class(methods: frozenset[str]) -> type[RemoteCache]:
    """A class with these methods of the ports, which are what the suite sees of the cache."""

    def method(name: str) -> Callable[..., object]:
        if name == TURNS:
            return lambda self, *args: self._turns(args)
        if name in LOOKS:
            return lambda self, *args: self._look(name, args)
        return lambda self, *args, **kwargs: self._call(name, args, kwargs)

    return type("RemoteCache", (RemoteCache,), {name: method(name) for name in methods})
