"""Calls on a page store judged alone, and what is known of it afterwards.

An exception is an observation here, not the end: STORE-10 says that one bad object must not fail the others.
Where nothing is wrong with any object of a batch, a call that raises breaks PORT-01 as everywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker.store_model import VAGUE, Entry
from kvlitmus.conformance.support.text import LONGEST, harmless, page_text, raised_text, shown, type_name

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Judge

DIGITS = 64
BYTES = bytes(at * 7 % 256 for at in range(512))
READER_SECONDS = 20.0
PROBED = 12
"""After a clear, so many keys are looked at one by one."""


def ordinary_key(number: int) -> str:
    """One of the keys that every store must take: 64 lower-case hex digits."""
    return f"{number:02x}" * (DIGITS // 2)


def ordinary(key: str) -> bool:
    """Whether every store must take this key."""
    return len(key) == DIGITS and set(key) <= set("0123456789abcdef")


def key_text(key: str) -> str:
    """A key as a reader wants it: ``k3`` for an ordinary one."""
    if ordinary(key) and key == key[:2] * (DIGITS // 2):
        return f"k{int(key[:2], 16)}"
    return repr(key) if len(key) <= 24 else f"{key[:8]!r}…{key[-2:]!r} of {len(key)}"


def keys_text(keys: Sequence[str]) -> str:
    """A batch of keys as a reader wants it."""
    return f"[{', '.join(map(key_text, keys))}]"


def new_page(judge: Judge, key: str, size: int = 0) -> bytes:
    """A page that no other is like: its number, who puts it where, and bytes that depend on both."""
    shelf = judge.shelf
    shelf.serial += 1
    head = b"v%d|rank %d|%s|" % (shelf.serial, shelf.rank, key.encode("utf-8", "replace")[:8])
    wanted = size or page_bytes(judge)
    at = shelf.serial * 61 % 256
    return (head + BYTES[at : at + 251] * (wanted // 251 + 1))[:wanted]


def page_bytes(judge: Judge) -> int:
    """How many bytes a page of this run has."""
    return 64 * judge.size


# -- calls -----------------------------------------------------------------------------------------


def exists(judge: Judge, keys: Sequence[str]) -> int | None:
    """Ask how many leading keys are there; ``None`` when it raised."""
    answer, error = _ask(judge, f"exists({keys_text(keys)})", "store_exists", list(keys))
    entries = [judge.shelf.entry(key) for key in keys]
    facts = _known(judge, keys, entries)
    if error is not None:
        _failed(judge, "store_exists", keys, facts, error)
        return None
    count = judge.count(answer, "how many leading keys are there")
    judge.trail[-1] += f" → {count}"
    for key, entry in zip(keys[: count + 1], entries, strict=False):
        judge.shelf.note(key, entry.counted(key in keys[:count]))
    judge.evaluate("store_exists", {**facts, "store_counted": count, "store_raised": False})
    return count


def get(judge: Judge, keys: Sequence[str], size: int = 0, kinds: str = "store_get", **more: object) -> bool:
    """Read some pages; whether the call answered.  ``kinds`` and ``more`` add to what is judged."""
    wanted = size or page_bytes(judge)
    answer, error = _ask(judge, f"get({keys_text(keys)})", "store_get", list(keys), wanted)
    entries = [judge.shelf.entry(key) for key in keys]
    facts = {**_known(judge, keys, entries), **more}
    if error is not None:
        _failed(judge, kinds, keys, facts, error)
        return False
    got = _pages(judge, answer)
    judge.trail[-1] += f" → [{', '.join(map(page_text, got))}]"
    for key, one in zip(keys, got, strict=False):
        judge.shelf.note(key, judge.shelf.entry(key).read(one))
    facts.update(store_got=got, store_answered=len(got), store_raised=False)
    judge.evaluate(kinds, _apart(judge, keys, facts))
    return True


def lookup(judge: Judge, keys: Sequence[str]) -> None:
    """Do as an engine does: ask how many leading pages are there, and read those."""
    count = exists(judge, keys)
    if count:
        leading = keys[: min(count, len(keys))]
        get(judge, leading, kinds="store_get+store_lookup", store_leading=count)


def put(judge: Judge, keys: Sequence[str], values: Sequence[bytes]) -> list[bool]:
    """Put some pages; for each whether it is stored.  What a call that raised has done isn't known."""
    text = f"put({keys_text(keys)}, [{', '.join(map(page_text, values))}])"
    answer, error = _ask(judge, text, "store_put", list(keys), list(values))
    facts = _known(judge, keys, [judge.shelf.entry(key) for key in keys])
    if error is not None:
        _record(judge, keys, values, [False] * len(keys))
        facts.update(_strays(judge))
        _failed(judge, "store_put", keys, facts, error)
        return []
    accepted = _sequence(judge, answer, "answers")
    odd = next((one for one in accepted if type(one) is not bool), None)
    if odd is not None:
        raise judge.broken("PORT-03", f"expected True or False for each key, got {shown(odd)}")
    judge.trail[-1] += f" → {accepted}"
    _record(judge, keys, values, accepted)
    facts.update(store_accepted=accepted, store_answered=len(accepted), store_raised=False, **_strays(judge))
    judge.evaluate("store_put", facts)
    return accepted


def get_into(judge: Judge, keys: Sequence[str]) -> None:
    """Read some pages into buffers that hold something else."""
    buffers = [bytearray(b"\xa5" * page_bytes(judge)) for _ in keys]
    before = [bytes(one) for one in buffers]
    answer, error = _ask(judge, f"get_into({keys_text(keys)}, buffers)", "store_get_into", list(keys), buffers)
    facts = _known(judge, keys, [judge.shelf.entry(key) for key in keys])
    if error is not None:
        _failed(judge, "store_get_into", keys, facts, error)
        return
    filled = _sequence(judge, answer, "answers")
    judge.trail[-1] += f" → {filled}"
    facts.update(
        store_filled=[one is True for one in filled],
        store_answered=len(filled),
        store_raised=False,
        buffers_before=before,
        buffers_after=[bytes(one) for one in buffers],
    )
    judge.evaluate("store_get_into", facts)


def clear(judge: Judge) -> None:
    """Clear the store, and look for what is left, key by key."""
    shelf = judge.shelf
    known = [key for key in shelf.known() if ordinary(key)][-PROBED:]
    _, error = _ask(judge, "clear()", "store_clear")
    if error is not None:
        raise judge.broken("PORT-01", f"the call raised {raised_text(error)}")
    left = []
    for key in known:
        count, failed = _ask(judge, f"exists([{key_text(key)}])", "store_exists", [key])
        got, failed_too = _ask(judge, f"get([{key_text(key)}])", "store_get", [key], page_bytes(judge))
        if failed or failed_too or count or _pages(judge, got) != [None]:
            left.append(key_text(key))
    shelf.clear()
    judge.evaluate("store_clear", {"store_left": left})


def damage(judge: Judge, key: str, how: str, other: str) -> bool:
    """Damage a stored object behind the store's back; whether that could be done."""
    entry = judge.shelf.entry(key)
    if entry.there is not True or entry.damage:
        return False
    with_other = how in ("other", "link")
    if with_other and (other == key or judge.shelf.entry(other).there is not True):
        return False
    text = f"damage({key_text(key)}, {how!r}{f', {key_text(other)}' if with_other else ''})"
    answer, error = _ask(judge, text, "store_damage", key, how, other)
    if error is not None:
        raise judge.broken("PORT-01", f"the adapter's own fault raised {raised_text(error)}")
    judge.trail[-1] += "" if answer is True else " → can't be done"
    if answer is True:
        judge.shelf.note(key, entry.damaged(how))
    return answer is True


def reopen(judge: Judge) -> None:
    """Go on with a fresh handle; everything that was stored must still be there."""
    _, error = _ask(judge, "reopen()", "store_reopen")
    if error is not None:
        raise judge.broken("PORT-01", f"opening the store again raised {raised_text(error)}")


def rank(judge: Judge, number: int) -> None:
    """From now on the calls are those of this rank."""
    _, error = _ask(judge, f"as rank {number} of 2", "store_rank", number)
    if error is not None:
        raise judge.broken("PORT-01", f"opening the store as another rank raised {raised_text(error)}")
    judge.shelf.rank = number


def crash(judge: Judge, key: str, value: bytes, after: int) -> None:
    """Have a writer die after so many bytes, and look at the key."""
    shelf = judge.shelf
    entry = shelf.entry(key)
    if entry.damage:
        return
    wholes = frozenset((*entry.puts, value))
    text = f"put([{key_text(key)}], [{page_text(value)}]) by a process that dies after {after} bytes"
    _, error = _ask(judge, text, "store_crash", key, value, after)
    if error is not None:
        raise judge.broken("PORT-01", f"the adapter's own fault raised {raised_text(error)}")
    count, failed = _ask(judge, f"exists([{key_text(key)}])", "store_exists", [key])
    counted = 0 if failed else judge.count(count, "how many leading keys are there")
    judge.trail[-1] += f" → {counted}"
    got, failed_too = _ask(judge, f"get([{key_text(key)}])", "store_get", [key], len(value))
    answered = failed is None and failed_too is None
    pages = [None] if failed_too else _pages(judge, got)
    judge.trail[-1] += f" → {page_text(pages[0])}" if answered and pages else ""
    page = pages[0] if pages else None
    if page in wholes:
        shelf.note(key, Entry(True, (*entry.puts, value), page))
    else:
        torn = bool(counted) or page is not None or not answered
        shelf.note(key, Entry(None, (*entry.puts, value), damage="torn") if torn else Entry())
    judge.evaluate(
        "store_crash+store_lookup",
        {
            "store_glimpses": pages,
            "store_wholes": wholes,
            "store_raised": not answered,
            "store_leading": int(bool(counted)),
            "store_got": pages,
            "store_damage": [""],
        },
    )


def race(judge: Judge, numbers: Sequence[int], size: int) -> None:
    """Put large pages one after the other, while another thread reads them through a handle of its own."""
    other, error = _ask(judge, "another handle", "store_other")
    if error is not None:
        raise judge.broken("PORT-01", f"opening a second handle raised {raised_text(error)}")
    keys = [ordinary_key(number) for number in numbers]
    values = {key: new_page(judge, key, size) for key in keys}
    glimpses: set[bytes | None] = set()
    raised: list[str] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for key in keys:
                try:
                    (got,) = other.store_get([key], size)
                    glimpses.add(got if got is None or got == values[key] else b"half|%d" % len(got))
                except Exception as failed:  # noqa: BLE001 - what a reader sees is what is judged
                    raised.append(raised_text(failed))
                    return

    thread = threading.Thread(target=read, daemon=True, name="kvlitmus-reader")
    thread.start()
    try:
        for key in keys:
            put(judge, [key], [values[key]])
    finally:
        stop.set()
        thread.join(READER_SECONDS)
    judge.trail.append("… while another thread was reading" + (f", which raised {raised[0]}" if raised else ""))
    seen = [None if one is None else one[:48] for one in glimpses]
    wholes = frozenset(value[:48] for value in values.values())
    judge.evaluate("store_race", {"store_glimpses": seen, "store_wholes": wholes, "store_raised": bool(raised)})


# -- what all of them need -------------------------------------------------------------------------


def _ask(judge: Judge, text: str, method: str, *args: Any) -> tuple[Any, Exception | None]:
    """Make one call: its answer, or what it raised.  Its arguments must be what they were, but for buffers."""
    judge.announce(text, method)
    given = [(arg, list(arg)) for arg in args if isinstance(arg, list) and method != "store_get_into"]
    try:
        answer = getattr(judge.adapter, method)(*args)
    except NotImplementedError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises is an observation
        judge.trail[-1] += f" → raised {_raised(judge, error)}"
        return None, error
    except BaseException as error:
        raise judge.raised(error, "the call") from error
    if any(now != then for now, then in given):
        raise judge.broken("PORT-04", "the call changed a sequence that was passed to it")
    return answer, None


def _raised(judge: Judge, error: Exception) -> str:
    """What was raised, without the name of a temporary folder."""
    text = raised_text(error, 2 * LONGEST)
    if "store_yard" in judge.capabilities:
        text = text.replace(str(judge.adapter.store_yard()), "…")
    return harmless(text, 160)


def _failed(judge: Judge, kinds: str, keys: Sequence[str], facts: dict[str, Any], error: Exception) -> None:
    """A call that raised: a rule is broken, unless a key was out of the ordinary."""
    facts["store_raised"] = True
    whole = all(judge.shelf.entry(key).there is not None for key in keys)
    if whole and not facts["store_excused"]:
        raise judge.broken("PORT-01", f"the call raised {raised_text(error)}")
    judge.evaluate(f"{kinds}+raised", facts)


def _known(judge: Judge, keys: Sequence[str], entries: Sequence[Entry]) -> dict[str, Any]:
    """What was known of these keys before a call, as facts."""
    foreign = [judge.shelf.foreign(key) for key in keys]
    return {
        "store_asked": len(keys),
        # A store need not remove a folder, which may be somebody's.
        "store_ordinary": [
            ordinary(key) and entry.damage not in ("folder", VAGUE) for key, entry in zip(keys, entries, strict=True)
        ],
        "store_excused": not all(map(ordinary, keys)),
        "store_there": [entry.there for entry in entries],
        "store_puts": [entry.puts for entry in entries],
        "store_due": [entry.due for entry in entries],
        "store_damage": [entry.damage for entry in entries],
        "store_mended": [entry.mended for entry in entries],
        "store_foreign": foreign,
        "store_checks": judge.profile.store_checks,
    }


def _apart(judge: Judge, keys: Sequence[str], facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a get with the odd positions apart: odd keys, and what was put under such a key."""
    got = facts["store_got"]
    odd = [
        at for at, (key, one) in enumerate(zip(keys, got, strict=False)) if not ordinary(key) or one in judge.shelf.odd
    ]
    plain = facts
    if odd:
        lists = {name: value for name, value in facts.items() if isinstance(value, list)}
        plain = facts | {name: [one for at, one in enumerate(value) if at not in odd] for name, value in lists.items()}
    return plain | {
        "store_odd_got": [got[at] for at in odd],
        "store_odd_puts": [facts["store_puts"][at] for at in odd],
        "store_odd_there": [facts["store_there"][at] for at in odd],
    }


def _record(judge: Judge, keys: Sequence[str], values: Sequence[bytes], accepted: Sequence[bool]) -> None:
    shelf = judge.shelf
    shelf.odd.update(value for key, value in zip(keys, values, strict=False) if not ordinary(key))
    for key, value, stored in zip(keys, values, accepted, strict=False):
        shelf.note(key, shelf.entry(key).put(value, stored, shelf.policy))


def _sequence(judge: Judge, answer: object, what: str) -> list[Any]:
    if type(answer) is not list and type(answer) is not tuple:
        raise judge.broken("PORT-03", f"expected a list of {what}, got {type_name(answer)}")
    return list(answer)


def _pages(judge: Judge, answer: object) -> list[bytes | None]:
    """The answer of a get as a list of pages; anything else breaks PORT-03."""
    got = _sequence(judge, answer, "pages")
    odd = next((one for one in got if one is not None and type(one) is not bytes), None)
    if odd is not None:
        raise judge.broken("PORT-03", f"expected bytes or None for each key, got {shown(odd)} of type {type_name(odd)}")
    return got


def _strays(judge: Judge) -> dict[str, object]:
    """What lies beside the store, where that can be seen."""
    if "store_yard" not in judge.capabilities:
        return {}
    return {"store_strays": sorted(map(str, judge.look("store_strays")))}
