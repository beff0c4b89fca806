"""A page store that is correct: a map from places to objects, and every call a function of it.

An object has a **place**, made of the rank's identity and the key, and carries what it takes to tell whether
it is whole: here its place and its length and checksum are one flag, ``whole``.  Faults (a damaged object,
a writer that dies, an object that can't be stored) come in as arguments.

The atomicity that real stores work for is one line here: :func:`put` replaces an object in one step, so a
writer that dies (:func:`crash`) has either done it or not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

KEY_LIMIT = 1024
"""Keys of more characters than this are refused."""


class Object(NamedTuple):
    """What is kept at a place: the bytes, and whether they are what was put there."""

    value: bytes
    whole: bool = True


class Store(NamedTuple):
    """A store: its objects by place, and whether a second put under a key replaces the first."""

    objects: Mapping[str, Object]
    replaces: bool = False


def empty_store(*, replaces: bool = False) -> Store:
    """A store without objects."""
    return Store({}, replaces)


def place(key: str, rank: int | None = None) -> str | None:
    """Where the object of a key is; ``None`` for a key that is refused.

    ``rank`` is the identity of who stores, ``None`` for data that are the same on all ranks.  The identity comes
    first and ends with the first slash, so no key of one rank is a key of another, whatever its text.
    """
    if not key or len(key) > KEY_LIMIT or "\0" in key:
        return None
    return f"{'all' if rank is None else rank}/{key}"


def there(store: Store, key: str, rank: int | None = None) -> bool:
    """Whether a whole object is there."""
    found = store.objects.get(place(key, rank) or "")
    return found is not None and found.whole


def exists(store: Store, keys: Sequence[str], rank: int | None = None) -> int:
    """How many leading keys are there (STORE-01)."""
    for count, key in enumerate(keys):
        if not there(store, key, rank):
            return count
    return len(keys)


def get(store: Store, keys: Sequence[str], rank: int | None = None) -> tuple[bytes | None, ...]:
    """The bytes of each key, by position; ``None`` for what isn't there or isn't whole (STORE-02 … STORE-08)."""
    return tuple([store.objects[place(key, rank) or ""].value if there(store, key, rank) else None for key in keys])


def put(
    store: Store,
    keys: Sequence[str],
    values: Sequence[bytes],
    rank: int | None = None,
    *,
    failing: Collection[int] = (),
) -> tuple[Store, tuple[bool, ...]]:
    """The store with the values, and for each position whether it is stored (STORE-02, STORE-06, STORE-09, STORE-17).

    An object that is whole stays, unless the store replaces; one that is damaged never stays.  The positions
    ``failing`` can't be stored: nothing changes there, and the answer says so.
    Raises ``ValueError`` when there are not as many values as keys.
    """
    if len(keys) != len(values):
        raise ValueError(f"as many values as keys, please (got {len(values)} and {len(keys)})", len(keys), len(values))
    objects = dict(store.objects)
    stored = []
    for position, (key, value) in enumerate(zip(keys, values, strict=True)):
        where = place(key, rank)
        if where is None or position in failing:
            stored.append(False)
            continue
        old = objects.get(where)
        if old is None or not old.whole or store.replaces:
            objects[where] = Object(bytes(value))
        stored.append(True)
    return store._replace(objects=objects), tuple(stored)


def clear(store: Store) -> Store:
    """The store without any object (STORE-16)."""
    return store._replace(objects={})


def damage(store: Store, key: str, rank: int | None = None) -> Store:
    """A fault: something below the store changed an object that is there; its bytes are no longer what was put."""
    where = place(key, rank)
    found = None if where is None else store.objects.get(where)
    if where is None or found is None:
        return store
    return store._replace(objects={**store.objects, where: found._replace(whole=False)})


def crash(store: Store, key: str, value: bytes, rank: int | None = None, *, finished: bool) -> Store:
    """A fault: a writer died during a put.  It had ``finished`` the one step that counts, or it had not (STORE-14)."""
    return put(store, [key], [value], rank)[0] if finished else store
