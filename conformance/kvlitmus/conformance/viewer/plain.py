"""What a tape says, read without trust: what hasn't the expected form is nothing."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping

from kvlitmus.conformance.support.brief import brief, runs
from kvlitmus.conformance.support.text import harmless, page_text
from kvlitmus.conformance.tape.calls import TURNS
from kvlitmus.conformance.tape.forms import Json

LONGEST = 600
"""No text that is drawn is longer, but for those that explain what is broken."""

MOST_UNITS = 16
"""Of longer runs of units the middle is left out."""

SEQUENCES = ("tuple", "list", "array")


def bare(value: Json) -> Json:
    """A value without the tag that says that it is of another type than promised."""
    while isinstance(value, dict) and value.keys() == {"$", "of"} and value["$"] in SEQUENCES:
        value = value["of"]
    return value


def items(value: Json) -> list[Json]:
    """The parts of a sequence."""
    value = bare(value)
    return value if isinstance(value, list) else []


def fields(value: Json) -> dict[str, Json]:
    """The fields of an object."""
    return value if isinstance(value, dict) else {}


def numbers(value: Json) -> list[int]:
    """The whole numbers of a sequence."""
    return [one for one in items(value) if type(one) is int]


def number(value: Json, otherwise: int = 0) -> int:
    """A whole number."""
    return value if type(value) is int else otherwise


def pairs(value: Json) -> Iterator[tuple[Json, Json]]:
    """The pairs of a mapping, which is an object or a list of pairs."""
    if isinstance(value, dict):
        yield from value.items()
        return
    for one in items(value):
        pair = items(one)
        if len(pair) == 2:
            yield pair[0], pair[1]


def part(value: Json, at: int) -> Json:
    """The part of a sequence that stands there."""
    found = items(value)
    return found[at] if at < len(found) else None


def short(value: object, most: int = LONGEST) -> str:
    """A text from a stranger, for one line."""
    return harmless(without_digests(str(value)), most)


def readable(value: object) -> str:
    """A text of a finding, with what is long in it told briefly."""
    return without_digests(brief(worded(str(value))))


TEXTS = re.compile(r"""\((?:(?:'[^'\\]*'|"[^"\\]*")(?:, |,(?=\))|(?=\))))+\)""")
"""Several texts, as findings print what a fact names."""

EVENT = re.compile(
    r"Event\(what='(?P<what>\w+)', tier='(?P<tier>\w*)', page=(?P<page>[^,]*), parent=(?P<parent>[^,]*), "
    r"units=\((?P<units>[\d(), -]*)\), namespace=(?:None|'(?P<namespace>[^']*)')\)"
)
"""What a cache told of a page, as findings print it."""

PAIR = re.compile(r"\((-?\d+), (-?\d+)\)")


def worded(text: str) -> str:
    """A fact as it is read: texts without quotes, and events in words."""
    if TEXTS.fullmatch(text):
        text = "; ".join(one[1:-1] for one in re.findall(r"""'[^']*'|"[^"]*\"""", text))
    return EVENT.sub(event_words, text)


def event_words(found: re.Match[str]) -> str:
    """An event that stands in a text."""
    event: dict[str, Json] = {name: one for name, one in found.groupdict().items() if one and one != "None"}
    units: list[Json] = [*filter(None, PAIR.sub(r"\1·\2", found["units"]).removesuffix(",").split(", "))]
    return event_text(event | {"units": units})


DIGEST = re.compile(r"(?<![0-9A-Za-z])(?:([0-9a-f]{2})\1{31}|([0-9a-f]{8})[0-9a-f]{24,})(?![0-9A-Za-z])")
"""A key of the suite's, which is one byte over and over, or any other long digest."""


def without_digests(text: str) -> str:
    """A text with keys by their names, ``k3``, and of other digests the beginning: they differ there."""
    return DIGEST.sub(lambda found: f"k{int(found[1], 16)}" if found[1] else f"{found[2]}…", text)


def span(values: list[int]) -> str:
    """Numbers, briefly: ``4…7, 9``."""
    return ", ".join(runs(values))


def units_text(units: Json) -> str:
    """The units of a key or a node; a pair of tokens as ``1·2``."""
    told = ["·".join(str(number(one, -1)) for one in items(unit)) or short(unit, 40) for unit in items(units)]
    if len(told) > MOST_UNITS:
        half = MOST_UNITS // 2
        told = [*told[:half], f"… {len(told) - MOST_UNITS} more …", *told[-half:]]
    return " ".join(told)


def key_text(key: dict[str, Json]) -> str:
    """A key, as findings print prefixes."""
    return prefix_text(key.get("namespace"), key.get("tokens"))


def prefix_text(namespace: Json, units: Json) -> str:
    """A prefix, as findings print it."""
    text = units_text(units)
    return f"‹{text}›" if namespace is None else f"‹{text} @{short(namespace, 60)}›"


LENDS = {"attach": "storage", "plan_prefetch": "host pool"}
"""What the suite lends for a call."""


def told(value: Json) -> str:
    """Any value, for one line."""
    return short(_told(value, 0))


def _told(value: Json, depth: int) -> str:
    if depth > 8:
        return "…"
    if isinstance(value, list):
        if value and all(type(one) is int for one in value):
            return f"[{span(numbers(value))}]"
        return f"[{', '.join(_told(one, depth + 1) for one in value[:200])}]"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if not isinstance(value, dict):
        return str(value)
    if "tokens" in value:
        return key_text(value)
    if "@" in value:
        return f"what step {part(value['@'], 0) if isinstance(value['@'], list) else value['@']} gave"
    if "lent" in value:
        return f"the suite's {LENDS.get(str(value['lent']), value['lent'])}"
    if "$" in value:
        return f"({value['$']}) {_told(value.get('of'), depth + 1)}"
    return ", ".join(f"{name} {_told(one, depth + 1)}" for name, one in value.items()) or "nothing"


def answered(call: str, answer: Json) -> str:
    """An answer, for one line: of a page store the pages by their names."""
    if call == "store_get" and isinstance(answer, list):
        return short(f"[{', '.join(map(page, answer))}]")
    if call == TURNS and "turns" in fields(answer):
        return short("; ".join([*map(turn_text, with_members(answer)), decisions_text(fields(answer).get("returned"))]))
    return told(answer)


Exchange = tuple[tuple[int, ...], dict[str, Json]]
"""With whom a rank exchanged numbers, and how."""


def with_members(answer: Json) -> list[Exchange]:
    """What a rank entered before it decided."""
    found: list[Exchange] = []
    for one in map(fields, items(fields(answer).get("turns"))):
        if "group" in one:
            found.append((tuple(numbers(fields(one["group"]).get("members"))), one))
        elif "to" in one or "source" in one:
            found.append(((number(one.get("to", one.get("source")), -1),), one))
    return found


def turn_text(exchange: Exchange) -> str:
    """An exchange, for one line."""
    members, one = exchange
    about = list(dict.fromkeys(str(name).rpartition(" ")[0] or str(name) for name in items(one.get("layout"))))
    what = f" of {', '.join(about)}" if about else ""
    if "group" in one:
        return short(f"{told(one.get('op'))}{what} over ranks {span(list(members))}", 200)
    return short(f"sends{what} to rank {members[0]}" if "to" in one else f"receives from rank {members[0]}", 200)


def decisions_text(decisions: Json) -> str:
    """What a rank decided, for one line."""
    found = [f"{one.get('kind')} {one.get('of')} {told(one.get('prefixes'))}" for one in map(fields, items(decisions))]
    return f"decides {', '.join(found) or 'nothing'}"


def page(value: Json) -> str:
    """A page by the name that the suite gave it."""
    if value is None:
        return "a miss"
    try:
        return page_text(base64.b64decode(str(value), validate=True))
    except (binascii.Error, ValueError):
        return told(value)


def text_of(call: str, args: Json, kwargs: Json) -> str:
    """A call, where the tape doesn't say how findings print it."""
    named = [f"{name}={_told(one, 0)}" for name, one in fields(kwargs).items()]
    return short(f"{call}({', '.join([*(_told(one, 0) for one in items(args)), *named])})")


def event_text(event: Mapping[str, Json]) -> str:
    """What a cache told of a page."""
    what = f"{short(event.get('what'), 20)} {short(event.get('tier', ''), 20)}".rstrip()
    named = f"{what}: page {short(told(event['page']), 24)}" if event.get("page") is not None else what
    units = units_text(event.get("units"))
    space = f" @{short(event['namespace'], 60)}" if event.get("namespace") is not None else ""
    parent = f", below {short(told(event['parent']), 24)}" if event.get("parent") is not None else ""
    return named + f" = {units}" * bool(units) + space + parent
