"""Who holds the pages that a cache has handed out: its caller, and the requests.  No snapshot tells, the calls do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.viewer.plain import fields, items, number, numbers, span, told
from kvlitmus.conformance.viewer.scenes import Call, Drawn, Follows, Row, table


class Request(NamedTuple):
    """A running request: its slots, of which the first ``cached`` are the tree's."""

    row: list[int]
    cached: int


class Holders(Follows):
    """The slots of the caller and of requests, by what calls asked and were answered.

    ``loans``: by slot for whom it was allocated, the caller, or a request that the suite composes; for several, if
    it was handed out again before it was given back.
    ``whole``: requests hold what is cached, too, as in a block table.
    """

    def __init__(self, size: int, duplicates: str, *, whole: bool) -> None:
        self.size, self.duplicates, self.whole = size, duplicates, whole
        self.forget()

    def forget(self) -> None:
        """Nobody holds anything."""
        self.loans: dict[int, list[tuple[str, str]]] = {}
        self.requests: dict[str, Request] = {}
        self.group: set[int] | None = None

    def homes(self) -> dict[int, list[tuple[str, str]]]:
        """By page who holds it, as often as one of its slots is held."""
        found: dict[int, Counter[tuple[str, str]]] = {}
        for slot, loans in self.loans.items():
            held = found.setdefault(slot // self.size, Counter())
            held |= Counter(loans)
        for rid, request in self.requests.items():
            for slot in request.row[0 if self.whole else request.cached :]:
                found.setdefault(slot // self.size, Counter())["request", f"request {rid}"] = 1
        for slot in self.group or ():
            found.setdefault(slot // self.size, Counter())["waiting", "given back, group open"] = 1
        return {page: list(homes.elements()) for page, homes in found.items()}

    def drawn(self) -> Drawn:
        """The requests, one a row."""
        rows = [
            Row(rid, [f"request {rid}", str(len(one.row)), str(one.cached), span(pages(one.row, self.size))])
            for rid, one in self.requests.items()
        ]
        return table("Requests", ["request", "slots", "of them cached", "pages"], rows)

    # -- calls ---------------------------------------------------------------------------------

    def _alloc(self, call: Call) -> None:
        last = numbers(call.given.get("last"))
        began = {slot // self.size: self.loans[slot][-1] for slot in last if slot in self.loans}
        who = ("request", f"request {call.request}") if call.request else ("caller", f"caller, step {call.number}")
        for slot in numbers(call.answer):  # what continues a page is of the call that began it
            self.loans.setdefault(slot, []).append(began.get(slot // self.size, who))

    _alloc_extend = _alloc_decode = _alloc

    def _give(self, slots: Sequence[int]) -> None:
        """Each slot is given back once; what was handed out twice somebody holds still."""
        for slot in dict.fromkeys(slots):
            if len(self.loans.get(slot, ())) > 1:
                self.loans[slot].pop(0)
            else:
                self.loans.pop(slot, None)

    def _free(self, call: Call) -> None:
        slots = numbers(call.given.get("slots"))
        self._give(slots)
        if self.group is not None:
            self.group |= set(slots)

    def _raw_free(self, call: Call) -> None:
        self._free(call)

    def _free_group_begin(self, call: Call) -> None:
        self.group = self.group or set()

    def _free_group_end(self, call: Call) -> None:
        self.group = None

    def _insert(self, call: Call) -> None:
        slots, answer = numbers(call.given.get("slots")), fields(call.answer)
        key = fields(call.given.get("key"))
        length = len(items(key.get("tokens"))) - int(key.get("bigram") is True)
        end = length - length % self.size
        told_left, already = answer.get("to_free"), number(answer.get("already"))
        if told_left is not None:
            left = set(numbers(told_left))
        elif self.duplicates == "caller_frees":
            left = set(slots[number(call.given.get("protected")) : already])
        else:
            left = set()
        self._give([slot for slot in slots[:end] if slot not in left])

    def _begin(self, call: Call) -> None:
        if call.answer is not None:
            self._now(call)

    def _now(self, call: Call) -> None:
        answer = fields(call.answer)
        self.requests[told(call.given.get("rid"))] = Request(numbers(answer.get("row")), number(answer.get("cached")))

    _publish = _publish_upto = _now
    _raw_begin = _fork = _resume = _begin

    def _grow(self, call: Call) -> None:
        rid = told(call.given.get("rid"))
        if rid in self.requests:
            request = self.requests[rid]
            self.requests[rid] = request._replace(row=[*request.row, *numbers(call.answer)])

    def _take_back(self, call: Call) -> None:
        rid = told(call.given.get("rid"))
        if rid in self.requests:
            request = self.requests[rid]
            self.requests[rid] = request._replace(row=request.row[: len(request.row) - number(call.given.get("n"))])

    def _end(self, call: Call) -> None:
        self.requests.pop(told(call.given.get("rid")), None)

    _end_upto = _end

    def _retract(self, call: Call) -> None:
        if call.answer is True:
            self._end(call)

    def _reset(self, call: Call) -> None:
        self.forget()


def pages(slots: Sequence[int], size: int) -> list[int]:
    """The pages that slots lie in, in order, each once."""
    return list(dict.fromkeys(slot // size for slot in slots))


def holders_of(config: Mapping[str, Json], profile: Mapping[str, Json]) -> Holders:
    """The holders of a cache of this configuration and profile."""
    size = max(1, number(config.get("page_size"), 1))
    duplicates = str(profile.get("duplicates", "caller_frees"))
    return Holders(size, duplicates, whole=profile.get("publish") == "at_alloc")
