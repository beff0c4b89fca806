"""Calls on a page store judged alone, and what is known of it afterwards.

An exception is an observation here, not the end: STORE-10 says that one bad object must not fail the others.
Where nothing is wrong with any object of a batch, a call that raises breaks PORT-01 as everywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.support.frames import raised_at
from kvlitmus.conformance.support.text import LONGEST, harmless, page_text, raised_text, shown, type_name
from kvlitmus.spec.prefix.calls import Raised
from kvlitmus.spec.stores.calls import (
    Cleared,
    Crashed,
    Filled,
    PutDone,
    Raced,
    StoreBatch,
    StoreCall,
    StoreClear,
    StoreCrash,
    StoreDamage,
    StoreExists,
    StoreGet,
    StoreGetInto,
    StorePut,
    StoreRace,
    StoreRank,
)
from kvlitmus.spec.stores.state import advance_store
from kvlitmus.spec.words.schemes import HASH_DIGITS, ordinary

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

BYTES = bytes(at * 7 % 256 for at in range(512))
READER_SECONDS = 20.0
FIRST_BYTES = 48
"""So much of a page tells it from all others; of a race no more is kept."""
PROBED = 12
"""After a clear, so many keys are looked at one by one."""


def ordinary_key(number: int) -> str:
    """One of the keys that every store must take: 64 lower-case hex digits."""
    return f"{number:02x}" * (HASH_DIGITS // 2)


def key_text(key: str) -> str:
    """A key as a reader wants it: ``k3`` for an ordinary one."""
    if ordinary(key) and key == key[:2] * (HASH_DIGITS // 2):
        return f"k{int(key[:2], 16)}"
    return repr(key) if len(key) <= 24 else f"{key[:8]!r}…{key[-2:]!r} of {len(key)}"


def keys_text(keys: Sequence[str]) -> str:
    """A batch of keys as a reader wants it."""
    return f"[{', '.join(map(key_text, keys))}]"


def new_page(checker: Checker, key: str, size: int = 0) -> bytes:
    """A page that no other is like: its number, who puts it where, and bytes that depend on both."""
    checker.pages_made += 1
    number, rank = checker.pages_made, checker.store_state.rank
    head = b"v%d|rank %d|%s|" % (number, rank, key.encode("utf-8", "replace")[:8])
    wanted = size or page_bytes(checker)
    at = number * 61 % 256
    return (head + BYTES[at : at + 251] * (wanted // 251 + 1))[:wanted]


def page_bytes(checker: Checker) -> int:
    """How many bytes a page of this run has."""
    return 64 * checker.size


# -- calls -----------------------------------------------------------------------------------------


def exists(checker: Checker, keys: Sequence[str]) -> int | None:
    """Ask how many leading keys are there; ``None`` when it raised."""
    call = StoreExists(tuple(keys))
    answer, error = _ask(checker, f"exists({keys_text(keys)})", "store_exists", list(keys))
    if error is not None:
        _failed(checker, call, Raised(raised_text(error)), error)
        return None
    count = checker.count(answer, "how many leading keys are there")
    checker.history[-1] += f" → {count}"
    _judge(checker, call, count)
    return count


def get(checker: Checker, keys: Sequence[str], size: int = 0, *, leading: int | None = None) -> bool:
    """Read some pages, of which the store said just before that so many are there; whether the call answered."""
    call = StoreGet(tuple(keys), size or page_bytes(checker), leading)
    answer, error = _ask(checker, f"get({keys_text(keys)})", "store_get", list(keys), call.size)
    if error is not None:
        _failed(checker, call, Raised(raised_text(error)), error)
        return False
    got = _pages(checker, answer)
    checker.history[-1] += f" → [{', '.join(map(page_text, got))}]"
    _judge(checker, call, tuple(got))
    return True


def lookup(checker: Checker, keys: Sequence[str]) -> None:
    """Do as an engine does: ask how many leading pages are there, and read those."""
    count = exists(checker, keys)
    if count:
        get(checker, keys[: min(count, len(keys))], leading=count)


def put(checker: Checker, keys: Sequence[str], values: Sequence[bytes]) -> list[bool]:
    """Put some pages; for each whether it is stored.  What a call that raised has done isn't known."""
    call = StorePut(tuple(keys), tuple(values))
    text = f"put({keys_text(keys)}, [{', '.join(map(page_text, values))}])"
    answer, error = _ask(checker, text, "store_put", list(keys), list(values))
    if error is not None:
        _failed(checker, call, PutDone(None, _strays(checker)), error)
        return []
    accepted = [checker.flag(one, "whether a page is stored") for one in _sequence(checker, answer, "answers")]
    checker.history[-1] += f" → {accepted}"
    _judge(checker, call, PutDone(tuple(accepted), _strays(checker)))
    return accepted


def get_into(checker: Checker, keys: Sequence[str]) -> None:
    """Read some pages into buffers that hold something else."""
    buffers = [bytearray(b"\xa5" * page_bytes(checker)) for _ in keys]
    call = StoreGetInto(tuple(keys), tuple(map(bytes, buffers)))
    answer, error = _ask(checker, f"get_into({keys_text(keys)}, buffers)", "store_get_into", list(keys), buffers)
    if error is not None:
        _failed(checker, call, Raised(raised_text(error)), error)
        return
    filled = _sequence(checker, answer, "answers")
    hits = tuple([checker.flag(one, "whether a buffer was filled") for one in filled])
    checker.history[-1] += f" → {list(hits)}"
    _judge(checker, call, Filled(hits, tuple(map(bytes, buffers))))


def clear(checker: Checker) -> None:
    """Clear the store, and look for what is left, key by key."""
    known = [key for key in checker.store_state.known() if ordinary(key)][-PROBED:]
    _ask_plainly(checker, "the call", "clear()", "store_clear")
    left = []
    for key in known:
        count, failed = _ask(checker, f"exists([{key_text(key)}])", "store_exists", [key])
        got, failed_too = _ask(checker, f"get([{key_text(key)}])", "store_get", [key], page_bytes(checker))
        if failed or failed_too or count or _pages(checker, got) != [None]:
            left.append(key_text(key))
    _judge(checker, StoreClear(), Cleared(tuple(left)))


def damage(checker: Checker, key: str, how: str, other: str) -> bool:
    """Damage a stored object behind the store's back; whether that could be done."""
    entry = checker.store_state.entry(key)
    if entry.there is not True or entry.damage:
        return False
    with_other = how in ("other", "link")
    if with_other and (other == key or checker.store_state.entry(other).there is not True):
        return False
    text = f"damage({key_text(key)}, {how!r}{f', {key_text(other)}' if with_other else ''})"
    answer = _ask_plainly(checker, "the adapter's own fault", text, "store_damage", key, how, other)
    done = checker.flag(answer, "whether the object was damaged")
    checker.history[-1] += "" if done else " → can't be done"
    _follow(checker, StoreDamage(key, how), done)
    return done


def reopen(checker: Checker) -> None:
    """Go on with a fresh handle; everything that was stored must still be there."""
    _ask_plainly(checker, "opening the store again", "reopen()", "store_reopen")


def rank(checker: Checker, number: int) -> None:
    """From now on the calls are those of this rank."""
    _ask_plainly(checker, "opening the store as another rank", f"as rank {number} of 2", "store_rank", number)
    _follow(checker, StoreRank(number), None)


def crash(checker: Checker, key: str, value: bytes, after: int) -> None:
    """Have a writer die after so many bytes, and look at the key."""
    if checker.store_state.entry(key).damage:
        return
    text = f"put([{key_text(key)}], [{page_text(value)}]) by a process that dies after {after} bytes"
    _ask_plainly(checker, "the adapter's own fault", text, "store_crash", key, value, after)
    count, failed = _ask(checker, f"exists([{key_text(key)}])", "store_exists", [key])
    counted = 0 if failed else checker.count(count, "how many leading keys are there")
    checker.history[-1] += f" → {counted}"
    got, failed_too = _ask(checker, f"get([{key_text(key)}])", "store_get", [key], len(value))
    answered = failed is None and failed_too is None
    pages = [None] if failed_too else _pages(checker, got)
    checker.history[-1] += f" → {page_text(pages[0])}" if answered and pages else ""
    _judge(checker, StoreCrash(key, value), Crashed(counted, tuple(pages), answered))


def race(checker: Checker, numbers: Sequence[int], size: int) -> None:
    """Put large pages one after the other, while another thread reads them through a handle of its own."""
    other = _ask_plainly(checker, "opening a second handle", "another handle", "store_other")
    with checker.reading("a second handle"):
        if not callable(other.store_get):
            raise TypeError("its store_get can't be called")
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
                except BaseException as failed:  # noqa: BLE001 - what a reader sees is what is judged
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
    seen = tuple([None if one is None else one[:FIRST_BYTES] for one in glimpses])
    wholes = tuple([value[:FIRST_BYTES] for value in values.values()])
    checker.answered(StoreRace(wholes), Raced(seen, bool(raised)), checker.store_state)


# -- what all of them need -------------------------------------------------------------------------


def _ask(checker: Checker, text: str, method: str, *args: Any) -> tuple[Any, Exception | None]:
    """Make one call: its answer, or what it raised.  Its arguments must be what they were, but for buffers."""
    checker.announce(text, method)
    given = [(arg, list(arg)) for arg in args if isinstance(arg, list) and method != "store_get_into"]
    answer, error = checker.attempt(lambda: getattr(checker.adapter, method)(*args))
    if isinstance(error, NotImplementedError):
        raise error
    if error is not None:
        checker.history[-1] += f" → raised {_raised(checker, error)}"
        return None, error
    checker.unchanged(given)
    return answer, None


def _ask_plainly(checker: Checker, what: str, text: str, method: str, *args: Any) -> Any:
    """Make a call that has no reason to raise (PORT-01), and say its answer; ``what`` it was, in words."""
    answer, error = _ask(checker, text, method, *args)
    if error is not None:
        raise checker.broken("PORT-01", f"{what} raised {raised_at(error)}")
    return answer


def yard(checker: Checker) -> str:
    """The folder in which the store's own folder lies."""
    return _text(checker, checker.look("store_yard"), "the folder of the store")


def _raised(checker: Checker, error: Exception) -> str:
    """What was raised, without the name of a temporary folder."""
    text = raised_text(error, 2 * LONGEST)
    if "store_yard" in checker.capabilities:
        text = text.replace(yard(checker), "…")
    return harmless(text, 160)


def _judge(checker: Checker, call: StoreCall, answer: object) -> None:
    """A call was answered: what is known of the store follows, and the step is judged."""
    before = checker.store_state
    _follow(checker, call, answer)
    checker.answered(call, answer, before)


def _follow(checker: Checker, call: StoreCall, answer: object) -> None:
    """What is known of the store after a call."""
    checker.store_state = advance_store(checker.store_state, checker.profile, call, answer)


def _failed(checker: Checker, call: StoreBatch, answer: object, error: Exception) -> None:
    """A call that raised: a rule is broken, unless a key was out of the ordinary."""
    before = checker.store_state
    _follow(checker, call, answer)
    whole = all(checker.store_state.entry(key).there is not None for key in call.keys)
    if whole and all(map(ordinary, call.keys)):
        raise checker.broken("PORT-01", f"the call raised {raised_at(error)}")
    checker.answered(call, answer, before)


def _sequence(checker: Checker, answer: object, what: str) -> list[Any]:
    return list(checker.listed(answer, what))


def _pages(checker: Checker, answer: object) -> list[bytes | None]:
    """The answer of a get as a list of pages; anything else breaks PORT-03."""
    got = _sequence(checker, answer, "pages")
    odd = next((one for one in got if one is not None and type(one) is not bytes), None)
    if odd is not None:
        raise checker.broken(
            "PORT-03", f"expected bytes or None for each key, got {shown(odd)} of type {type_name(odd)}"
        )
    return got


def _strays(checker: Checker) -> tuple[str, ...] | None:
    """What lies beside the store, where that can be seen."""
    if "store_yard" not in checker.capabilities:
        return None
    strays = _sequence(checker, checker.look("store_strays"), "names of files")
    return tuple(sorted([_text(checker, one, "the name of a file") for one in strays]))


def _text(checker: Checker, answer: object, what: str) -> str:
    """A text; anything else breaks PORT-03."""
    if type(answer) is not str:
        raise checker.broken("PORT-03", f"expected {what} as text, got {shown(answer)}")
    return answer
