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
    from kvlitmus.conformance.checker.checker import Checker

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


def new_page(checker: Checker, key: str, size: int = 0) -> bytes:
    """A page that no other is like: its number, who puts it where, and bytes that depend on both."""
    store_model = checker.store_model
    store_model.serial += 1
    head = b"v%d|rank %d|%s|" % (store_model.serial, store_model.rank, key.encode("utf-8", "replace")[:8])
    wanted = size or page_bytes(checker)
    at = store_model.serial * 61 % 256
    return (head + BYTES[at : at + 251] * (wanted // 251 + 1))[:wanted]


def page_bytes(checker: Checker) -> int:
    """How many bytes a page of this run has."""
    return 64 * checker.size


# -- calls -----------------------------------------------------------------------------------------


def exists(checker: Checker, keys: Sequence[str]) -> int | None:
    """Ask how many leading keys are there; ``None`` when it raised."""
    answer, error = _ask(checker, f"exists({keys_text(keys)})", "store_exists", list(keys))
    entries = [checker.store_model.entry(key) for key in keys]
    facts = _known(checker, keys, entries)
    if error is not None:
        _failed(checker, "store_exists", keys, facts, error)
        return None
    count = checker.count(answer, "how many leading keys are there")
    checker.history[-1] += f" → {count}"
    for key, entry in zip(keys[: count + 1], entries, strict=False):
        checker.store_model.note(key, entry.counted(key in keys[:count]))
    checker.evaluate("store_exists", {**facts, "store_counted": count, "store_raised": False})
    return count


def get(checker: Checker, keys: Sequence[str], size: int = 0, kinds: str = "store_get", **more: object) -> bool:
    """Read some pages; whether the call answered.  ``kinds`` and ``more`` add to what is judged."""
    wanted = size or page_bytes(checker)
    answer, error = _ask(checker, f"get({keys_text(keys)})", "store_get", list(keys), wanted)
    entries = [checker.store_model.entry(key) for key in keys]
    facts = {**_known(checker, keys, entries), **more}
    if error is not None:
        _failed(checker, kinds, keys, facts, error)
        return False
    got = _pages(checker, answer)
    checker.history[-1] += f" → [{', '.join(map(page_text, got))}]"
    for key, one in zip(keys, got, strict=False):
        checker.store_model.note(key, checker.store_model.entry(key).read(one))
    facts.update(store_got=got, store_answered=len(got), store_raised=False)
    checker.evaluate(kinds, _apart(checker, keys, facts))
    return True


def lookup(checker: Checker, keys: Sequence[str]) -> None:
    """Do as an engine does: ask how many leading pages are there, and read those."""
    count = exists(checker, keys)
    if count:
        leading = keys[: min(count, len(keys))]
        get(checker, leading, kinds="store_get+store_lookup", store_leading=count)


def put(checker: Checker, keys: Sequence[str], values: Sequence[bytes]) -> list[bool]:
    """Put some pages; for each whether it is stored.  What a call that raised has done isn't known."""
    text = f"put({keys_text(keys)}, [{', '.join(map(page_text, values))}])"
    answer, error = _ask(checker, text, "store_put", list(keys), list(values))
    facts = _known(checker, keys, [checker.store_model.entry(key) for key in keys])
    if error is not None:
        _record(checker, keys, values, [False] * len(keys))
        facts.update(_strays(checker))
        _failed(checker, "store_put", keys, facts, error)
        return []
    accepted = _sequence(checker, answer, "answers")
    odd = next((one for one in accepted if type(one) is not bool), None)
    if odd is not None:
        raise checker.broken("PORT-03", f"expected True or False for each key, got {shown(odd)}")
    checker.history[-1] += f" → {accepted}"
    _record(checker, keys, values, accepted)
    facts.update(store_accepted=accepted, store_answered=len(accepted), store_raised=False, **_strays(checker))
    checker.evaluate("store_put", facts)
    return accepted


def get_into(checker: Checker, keys: Sequence[str]) -> None:
    """Read some pages into buffers that hold something else."""
    buffers = [bytearray(b"\xa5" * page_bytes(checker)) for _ in keys]
    before = [bytes(one) for one in buffers]
    answer, error = _ask(checker, f"get_into({keys_text(keys)}, buffers)", "store_get_into", list(keys), buffers)
    facts = _known(checker, keys, [checker.store_model.entry(key) for key in keys])
    if error is not None:
        _failed(checker, "store_get_into", keys, facts, error)
        return
    filled = _sequence(checker, answer, "answers")
    checker.history[-1] += f" → {filled}"
    facts.update(
        store_filled=[one is True for one in filled],
        store_answered=len(filled),
        store_raised=False,
        buffers_before=before,
        buffers_after=[bytes(one) for one in buffers],
    )
    checker.evaluate("store_get_into", facts)


def clear(checker: Checker) -> None:
    """Clear the store, and look for what is left, key by key."""
    store_model = checker.store_model
    known = [key for key in store_model.known() if ordinary(key)][-PROBED:]
    _, error = _ask(checker, "clear()", "store_clear")
    if error is not None:
        raise checker.broken("PORT-01", f"the call raised {raised_text(error)}")
    left = []
    for key in known:
        count, failed = _ask(checker, f"exists([{key_text(key)}])", "store_exists", [key])
        got, failed_too = _ask(checker, f"get([{key_text(key)}])", "store_get", [key], page_bytes(checker))
        if failed or failed_too or count or _pages(checker, got) != [None]:
            left.append(key_text(key))
    store_model.clear()
    checker.evaluate("store_clear", {"store_left": left})


def damage(checker: Checker, key: str, how: str, other: str) -> bool:
    """Damage a stored object behind the store's back; whether that could be done."""
    entry = checker.store_model.entry(key)
    if entry.there is not True or entry.damage:
        return False
    with_other = how in ("other", "link")
    if with_other and (other == key or checker.store_model.entry(other).there is not True):
        return False
    text = f"damage({key_text(key)}, {how!r}{f', {key_text(other)}' if with_other else ''})"
    answer, error = _ask(checker, text, "store_damage", key, how, other)
    if error is not None:
        raise checker.broken("PORT-01", f"the adapter's own fault raised {raised_text(error)}")
    checker.history[-1] += "" if answer is True else " → can't be done"
    if answer is True:
        checker.store_model.note(key, entry.damaged(how))
    return answer is True


def reopen(checker: Checker) -> None:
    """Go on with a fresh handle; everything that was stored must still be there."""
    _, error = _ask(checker, "reopen()", "store_reopen")
    if error is not None:
        raise checker.broken("PORT-01", f"opening the store again raised {raised_text(error)}")


def rank(checker: Checker, number: int) -> None:
    """From now on the calls are those of this rank."""
    _, error = _ask(checker, f"as rank {number} of 2", "store_rank", number)
    if error is not None:
        raise checker.broken("PORT-01", f"opening the store as another rank raised {raised_text(error)}")
    checker.store_model.rank = number


def crash(checker: Checker, key: str, value: bytes, after: int) -> None:
    """Have a writer die after so many bytes, and look at the key."""
    store_model = checker.store_model
    entry = store_model.entry(key)
    if entry.damage:
        return
    wholes = frozenset((*entry.puts, value))
    text = f"put([{key_text(key)}], [{page_text(value)}]) by a process that dies after {after} bytes"
    _, error = _ask(checker, text, "store_crash", key, value, after)
    if error is not None:
        raise checker.broken("PORT-01", f"the adapter's own fault raised {raised_text(error)}")
    count, failed = _ask(checker, f"exists([{key_text(key)}])", "store_exists", [key])
    counted = 0 if failed else checker.count(count, "how many leading keys are there")
    checker.history[-1] += f" → {counted}"
    got, failed_too = _ask(checker, f"get([{key_text(key)}])", "store_get", [key], len(value))
    answered = failed is None and failed_too is None
    pages = [None] if failed_too else _pages(checker, got)
    checker.history[-1] += f" → {page_text(pages[0])}" if answered and pages else ""
    page = pages[0] if pages else None
    if page in wholes:
        store_model.note(key, Entry(True, (*entry.puts, value), page))
    else:
        torn = bool(counted) or page is not None or not answered
        store_model.note(key, Entry(None, (*entry.puts, value), damage="torn") if torn else Entry())
    checker.evaluate(
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


def race(checker: Checker, numbers: Sequence[int], size: int) -> None:
    """Put large pages one after the other, while another thread reads them through a handle of its own."""
    other, error = _ask(checker, "another handle", "store_other")
    if error is not None:
        raise checker.broken("PORT-01", f"opening a second handle raised {raised_text(error)}")
    keys = [ordinary_key(number) for number in numbers]
    values = {key: new_page(checker, key, size) for key in keys}
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
            put(checker, [key], [values[key]])
    finally:
        stop.set()
        thread.join(READER_SECONDS)
    checker.history.append("… while another thread was reading" + (f", which raised {raised[0]}" if raised else ""))
    seen = [None if one is None else one[:48] for one in glimpses]
    wholes = frozenset(value[:48] for value in values.values())
    checker.evaluate("store_race", {"store_glimpses": seen, "store_wholes": wholes, "store_raised": bool(raised)})


# -- what all of them need -------------------------------------------------------------------------


def _ask(checker: Checker, text: str, method: str, *args: Any) -> tuple[Any, Exception | None]:
    """Make one call: its answer, or what it raised.  Its arguments must be what they were, but for buffers."""
    checker.announce(text, method)
    given = [(arg, list(arg)) for arg in args if isinstance(arg, list) and method != "store_get_into"]
    try:
        answer = getattr(checker.adapter, method)(*args)
    except NotImplementedError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises is an observation
        checker.history[-1] += f" → raised {_raised(checker, error)}"
        return None, error
    except BaseException as error:
        raise checker.raised(error, "the call") from error
    if any(now != then for now, then in given):
        raise checker.broken("PORT-04", "the call changed a sequence that was passed to it")
    return answer, None


def _raised(checker: Checker, error: Exception) -> str:
    """What was raised, without the name of a temporary folder."""
    text = raised_text(error, 2 * LONGEST)
    if "store_yard" in checker.capabilities:
        text = text.replace(str(checker.adapter.store_yard()), "…")
    return harmless(text, 160)


def _failed(checker: Checker, kinds: str, keys: Sequence[str], facts: dict[str, Any], error: Exception) -> None:
    """A call that raised: a rule is broken, unless a key was out of the ordinary."""
    facts["store_raised"] = True
    whole = all(checker.store_model.entry(key).there is not None for key in keys)
    if whole and not facts["store_excused"]:
        raise checker.broken("PORT-01", f"the call raised {raised_text(error)}")
    checker.evaluate(f"{kinds}+raised", facts)


def _known(checker: Checker, keys: Sequence[str], entries: Sequence[Entry]) -> dict[str, Any]:
    """What was known of these keys before a call, as facts."""
    foreign = [checker.store_model.foreign(key) for key in keys]
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
        "store_checks": checker.profile.store_checks,
    }


def _apart(checker: Checker, keys: Sequence[str], facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a get with the odd positions apart: odd keys, and what was put under such a key."""
    got = facts["store_got"]
    odd = [
        at
        for at, (key, one) in enumerate(zip(keys, got, strict=False))
        if not ordinary(key) or one in checker.store_model.odd
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


def _record(checker: Checker, keys: Sequence[str], values: Sequence[bytes], accepted: Sequence[bool]) -> None:
    store_model = checker.store_model
    store_model.odd.update(value for key, value in zip(keys, values, strict=False) if not ordinary(key))
    for key, value, stored in zip(keys, values, accepted, strict=False):
        store_model.note(key, store_model.entry(key).put(value, stored, store_model.policy))


def _sequence(checker: Checker, answer: object, what: str) -> list[Any]:
    if type(answer) is not list and type(answer) is not tuple:
        raise checker.broken("PORT-03", f"expected a list of {what}, got {type_name(answer)}")
    return list(answer)


def _pages(checker: Checker, answer: object) -> list[bytes | None]:
    """The answer of a get as a list of pages; anything else breaks PORT-03."""
    got = _sequence(checker, answer, "pages")
    odd = next((one for one in got if one is not None and type(one) is not bytes), None)
    if odd is not None:
        raise checker.broken(
            "PORT-03", f"expected bytes or None for each key, got {shown(odd)} of type {type_name(odd)}"
        )
    return got


def _strays(checker: Checker) -> dict[str, object]:
    """What lies beside the store, where that can be seen."""
    if "store_yard" not in checker.capabilities:
        return {}
    return {"store_strays": sorted(map(str, checker.look("store_strays")))}
