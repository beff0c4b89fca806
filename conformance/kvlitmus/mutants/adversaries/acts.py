"""Ways to meddle with a call: refuse it, take less, take more; each by the form of its answer or of its arguments."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.mutants.adversaries.meddler import Act, Asked, Undone
from kvlitmus.mutants.prefix.disturbances import FOREIGN
from kvlitmus.spec.interface.cache import Hit
from kvlitmus.spec.interface.plans import STORAGE_OFF, PrefetchPlan
from kvlitmus.spec.interface.ranks import Ask
from kvlitmus.spec.interface.tiers import Loaded, Prefetched
from kvlitmus.spec.ledger.cells import Amount, Line, Refusal
from kvlitmus.spec.words.units import Key


def decided_nothing() -> Generator[Any, Any, Sequence[Any]]:
    """A call on a rank that enters nothing and decides nothing."""
    yield from ()
    return []


BEGUN_NOTHING: Mapping[str, Any] = {
    "prefetch": Prefetched(False, 0, 0),
    "plan_prefetch": PrefetchPlan(STORAGE_OFF),
    "component_prefetch": (None, {}, {}),
    "component_back_up": (None, {}, {}),
    "component_load": (None, 0, {}, {}),
    "component_write": (None, {}),
}
"""What a call answers that begins nothing."""

TOO_MUCH = 1 << 20
"""A chunk that no cache has room for."""


def refusing(line: Line) -> Act | None:
    """Refuse; nothing is done.  ``None`` where it can't be refused."""

    def refuse(asked: Asked) -> Any:
        answer = refused(line, asked)
        asked.done()
        return answer

    return refuse if line.refusal is not Refusal.NEVER else None


def refused(line: Line, asked: Asked) -> Any:
    """The answer of a call that is refused."""
    match line.refusal:
        case Refusal.FALSE:
            return False
        case Refusal.NO_SLOTS:
            return Loaded(asked.cache.match(asked.args[0]).length, None)
        case Refusal.NO_DECISION:
            return decided_nothing()
        case Refusal.NOT_STORED:
            return [False] * len(asked.args[0])
        case Refusal.NOTHING_BEGUN if line.call == "component_grow":
            return asked.again(asked.args[0], TOO_MUCH)
        case Refusal.NOTHING_BEGUN:
            return BEGUN_NOTHING[line.call]
    return None


def doing_nothing(asked: Asked) -> Any:
    """A call on a rank that decides nothing, where nothing can be refused."""
    asked.done()
    return decided_nothing()


def unit(asked: Asked, line: Line) -> int:
    """By how much more or less: a page where slots or units are counted, else one."""
    counts_pages = isinstance(asked.cache, Specimen) or line.call in ("component_start", "component_grow")
    return asked.config.page_size if counts_pages or line.amount is Amount.KEY else 1


def other_key(key: Key, by: int) -> Key:
    """A key that is shorter, or longer by tokens that nobody has."""
    if by < 0 and len(key.tokens) <= -by:
        raise Undone
    return key._replace(tokens=key.tokens[:by] if by < 0 else key.tokens + (FOREIGN,) * by)


def other_counts(wants: Mapping[str, Any], by: int) -> dict[str, Any]:
    """One thing more or less of the first component that has any: a count, a sequence, or ends with their places."""
    found = dict(wants)
    for name, one in wants.items():
        if isinstance(one, int) and one + by >= 0 and one:
            found[name] = one + by
        elif isinstance(one, Mapping) and one and by < 0:
            found[name] = dict(list(one.items())[:by])
        elif isinstance(one, Sequence) and len(one) and by < 0:
            found[name] = list(one)[:by]
        else:
            continue
        return found
    raise Undone


def other_ask(ask: Ask, by: int) -> Ask:
    """A page more or less of what ranks are asked."""
    if ask.what == "evict":
        return ask._replace(pages=max(0, ask.pages + by))
    if by < 0 and not ask.key:
        raise Undone
    return ask._replace(key=ask.key[:by] if by < 0 else (*ask.key, FOREIGN))


def changed(asked: Asked, line: Line, by: int) -> tuple[Any, ...]:
    """The arguments, with as much more or less."""
    args = list(asked.args)
    at, many = (1, by) if line.call == "ranks_ask" else (line.at, by * unit(asked, line))
    given = args[at]
    match line.amount:
        case Amount.COUNT:
            if given + many < 0:
                raise Undone
            args[at] = given + many
        case Amount.COUNTS:
            args[at] = other_counts(given, by)
        case Amount.KEY:
            args[at] = other_key(given, many)
        case Amount.ASK:
            args[at] = other_ask(given, by)
        case Amount.PLACES if by < 0:
            args[at] = other_counts(given, by)
        case Amount.ITEMS if by < 0 and len(given) >= -many:
            args[at] = list(given)[:many]
            if line.call in ("store_put", "store_get_into"):
                args[1] = list(args[1])[:many]
        case _:
            raise Undone
    return tuple(args)


def less(line: Line) -> Act | None:
    """A unit less is done than is asked for; the answer is that of what was done."""
    if line.amount is Amount.NONE:
        return None

    def do(asked: Asked) -> Any:
        given = changed(asked, line, -1)
        asked.done()
        answer = asked.again(*given)
        if line.call.startswith("store_"):
            return filled(line, answer, asked)
        return answer

    return do


def filled(line: Line, answer: Any, asked: Asked) -> Any:
    """The answer of a batch that was cut, with a position for each key again, as if nothing had been cut."""
    lacking = len(asked.args[0]) - (answer if isinstance(answer, int) else len(answer))
    return answer if isinstance(answer, int) else [*answer, *[None if line.call == "store_get" else True] * lacking]


NOTHING_MORE = frozenset(
    {
        *("insert", "component_insert", "component_free"),  # whoever calls has brought no more
        *("load_back", "component_match", "component_load", "ranks_ask: match", "ranks_ask: load"),  # no more is there
    }
)
"""Rows and calls in which more can't be done than was asked for."""


def more(line: Line) -> Act | None:
    """A unit more is done than is asked for; what is answered is what was asked for, where the form lets it be."""
    if line.call == "match":
        return longer_match
    fixed = line.amount in (Amount.NONE, Amount.ITEMS, Amount.PLACES)
    if fixed or not NOTHING_MORE.isdisjoint((line.call, line.name)):
        return None

    def do(asked: Asked) -> Any:
        given = changed(asked, line, 1)
        asked.done()
        answer = asked.again(*given)
        if answer is None:
            return None
        if line.call in ("alloc", "sparse_request"):
            return answer[: asked.args[line.at]]
        if line.call == "component_alloc":
            return {name: places[: asked.args[0][name]] for name, places in answer.items()}
        return answer

    return do


def longer_match(asked: Asked) -> Hit:
    """A match that covers a page that isn't cached."""
    hit: Hit = asked.again()
    size, key = asked.config.page_size, asked.args[0]
    if hit.slots is None or hit.length + size > key.length:
        return hit
    asked.done()
    return hit._replace(length=hit.length + size, slots=(*hit.slots, *range(size, 2 * size)))
