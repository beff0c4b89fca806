"""Batches of KV events, as engines publish them: ``BlockStored``, ``BlockRemoved``, ``AllBlocksCleared``.

An event is a map with its ``type``, or an array that begins with it and has the fields in order, as older publishers
write.  A field that isn't known here is passed over, as publishers promise that it may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kvlitmus.conformance.support.text import harmless, shown
from kvlitmus.spec.prefix.listener import DEVICE, HOST

Plain: TypeAlias = "bool | int | float | str | bytes | list[Plain] | dict[str, Plain] | None"
"""What msgpack and JSON hold."""

Id: TypeAlias = "int | str | bytes"
"""The name of a block: an engine's hash of it."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "BlockStored": ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"),
    "BlockRemoved": ("block_hashes", "medium"),
    "AllBlocksCleared": (),
}
"""The kinds of events; and their fields in the order of an array."""

TIERS = {"gpu": DEVICE, "cpu": HOST, "cpu_pinned": HOST}
"""What is called the device and the host; other media are tiers of their own name."""

WHOLE = frozenset({"", "full_attention", "mla_attention", "sink_full_attention"})
"""Groups in which a block is of use behind all blocks before it; where none is named, all are taken for such."""

SHOWN = 100
"""How much of an odd value an error shows, in characters."""


class FormError(Exception):
    """A value that is no batch of events; both texts are harmless."""

    def __init__(self, expected: str, got: object, *, words: bool = False) -> None:
        self.expected = expected
        self.got = harmless(got, SHOWN) if words else shown(got, SHOWN)
        super().__init__(f"expected {self.expected}, got {self.got}")


class UnknownEvent(FormError):
    """An event of another kind, which whoever asked for it may pass over; ``kind``: its name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(f"an event of {', '.join(FIELDS)} (or --ignore-unknown)", kind)


class Stored(NamedTuple):
    """Blocks are on a tier from now on; ``unlike``: of each what its tokens don't say: images, salts, what is ahead."""

    ids: tuple[Id, ...]
    parent: Id | None
    tokens: tuple[object, ...]
    size: int
    tier: str
    group: int
    kind: str
    namespace: str | None
    unlike: tuple[object, ...] = ()


class Removed(NamedTuple):
    """Blocks have left a tier."""

    ids: tuple[Id, ...]
    tier: str
    group: int


class Cleared(NamedTuple):
    """Everything has left all tiers."""


KvEvent: TypeAlias = "Stored | Removed | Cleared"


class Batch(NamedTuple):
    """What one publisher told at once.

    ``line``: where in the file, counted from 1; ``publisher``: its topic and rank, in words; ``number``: its own count,
    if that was captured; ``digest``: what it is known again by.
    """

    line: int
    publisher: str
    number: int | None
    events: tuple[KvEvent, ...]
    digest: bytes = b""


def event_of(found: Plain) -> KvEvent:
    """The event in a map or an array; raises :class:`FormError`."""
    if isinstance(found, dict):
        kind, fields = found.get("type"), found
    elif isinstance(found, list) and found:
        kind = found[0]
        names = FIELDS.get(kind, ()) if isinstance(kind, str) else ()
        fields = dict(zip(names, found[1:], strict=False))
    else:
        raise FormError('an event such as {"type": "BlockRemoved", "block_hashes": [1]}', found)
    if not isinstance(kind, str):
        raise FormError('an event with its "type"', found)
    if kind == "AllBlocksCleared":
        return Cleared()
    if kind == "BlockRemoved":
        return Removed(ids_of(fields.get("block_hashes")), tier_of(fields), group_of(fields))
    if kind == "BlockStored":
        return stored_of(fields)
    raise UnknownEvent(kind)


def stored_of(fields: Mapping[str, Plain]) -> Stored:
    """The event that blocks were stored."""
    ids, size, tokens = ids_of(fields.get("block_hashes")), fields.get("block_size"), fields.get("token_ids")
    parent = fields.get("parent_block_hash")
    if type(size) is not int or size < 1:
        raise FormError("block_size to be a whole number from 1", size)
    if not isinstance(tokens, list):
        raise FormError("token_ids to be a list", tokens)
    return Stored(
        ids,
        None if parent is None else id_of(parent),
        tuple(map(token_of, tokens)),
        size,
        tier_of(fields),
        group_of(fields),
        text_of(fields, "kv_cache_spec_kind"),
        namespace_of(fields),
        tuple(zip(*map(frozen, beside), strict=True)) if (beside := beside_of(fields, len(ids))) else (),
    )


def beside_of(fields: Mapping[str, Plain], blocks: int) -> list[list[Plain]]:
    """What is told of each block beside its tokens, as lists of one value a block."""
    found = []
    for name in ("extra_keys", "lookahead_token_ids"):
        value = fields.get(name)
        if value is None:
            continue
        if not isinstance(value, list) or len(value) != blocks:
            raise FormError(f"{name} to be a list of one entry for each of {blocks} blocks", value)
        found.append(value)
    return found


def frozen(value: Plain) -> tuple[object, ...]:
    """A list, and all lists in it, as tuples; maps as what they are written as."""
    assert isinstance(value, list)
    return tuple(frozen(one) if isinstance(one, list) else repr(one) if isinstance(one, dict) else one for one in value)


def token_of(found: Plain) -> object:
    """A token, or a pair of them, as EAGLE's caches have."""
    if type(found) is int:
        return found
    if isinstance(found, list) and len(found) == 2 and all(type(one) is int for one in found):
        return tuple(found)
    raise FormError("a token to be a whole number or a pair of them", found)


def id_of(found: Plain) -> Id:
    """The name of a block."""
    if type(found) is int or isinstance(found, str | bytes):
        return found
    raise FormError("the hash of a block to be a whole number, a text or bytes", found)


def ids_of(found: Plain) -> tuple[Id, ...]:
    """The names of blocks."""
    if not isinstance(found, list):
        raise FormError("block_hashes to be a list", found)
    return tuple(map(id_of, found))


def text_of(fields: Mapping[str, Plain], name: str) -> str:
    """A field that is a text, if there is one."""
    found = fields.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise FormError(f"{name} to be a text", found)
    return found


def tier_of(fields: Mapping[str, Plain]) -> str:
    """The tier of an event; another owner's, or a remote one, is a tier of its own."""
    medium = text_of(fields, "medium").lower()
    parts = [TIERS.get(medium, medium) or DEVICE, text_of(fields, "ownership")]
    if text_of(fields, "locality") == "REMOTE":
        parts.append("remote")
    return " ".join(filter(None, parts))


def group_of(fields: Mapping[str, Plain]) -> int:
    """The number of the group; 0 where there is one."""
    found = fields.get("group_idx")
    if found is None:
        return 0
    if type(found) is not int or found < 0:
        raise FormError("group_idx to be a whole number from 0", found)
    return found


def namespace_of(fields: Mapping[str, Plain]) -> str | None:
    """The LoRA adapter and the salt of the blocks, as one namespace."""
    lora = text_of(fields, "lora_name") or fields.get("lora_id")
    if lora is not None and not isinstance(lora, str) and type(lora) is not int:
        raise FormError("lora_id to be a whole number", lora)
    salt = text_of(fields, "cache_salt")
    parts = ([f"LoRA {lora}"] if lora is not None else []) + ([f"salt {salt}"] if salt else [])
    return ", ".join(parts) or None


def events_of(found: Plain, ignored: dict[str, int] | None) -> tuple[KvEvent, ...]:
    """The events of a batch; those of an unknown kind are counted in ``ignored``, if it is given."""
    if not isinstance(found, list):
        raise FormError("the events of a batch to be a list", found)
    events: list[KvEvent] = []
    for at, one in enumerate(found, 1):
        try:
            events.append(event_of(one))
        except UnknownEvent as error:
            if ignored is None:
                raise
            ignored[error.kind] = ignored.get(error.kind, 0) + 1
        except FormError as error:
            raise FormError(f"{error.expected}, in event {at} of the batch", error.got, words=True) from None
    return tuple(events)


def publisher_of(topic: str, rank: Plain) -> str:
    """A publisher in words."""
    if rank is not None and type(rank) is not int:
        raise FormError("the rank of a batch to be a whole number", rank)
    return ", ".join([harmless(topic, SHOWN)] * bool(topic) + [f"rank {rank}"] * (rank is not None))


def parts_of(found: Plain) -> tuple[Sequence[Plain] | Plain, Plain]:
    """The events and the rank of a batch: an array of time, events and rank, or a map."""
    if isinstance(found, list) and len(found) >= 2 and isinstance(found[1], list):
        return found[1], found[2] if len(found) > 2 else None
    if isinstance(found, dict) and "events" in found:
        rank = found.get("data_parallel_rank")
        return found["events"], found.get("attn_dp_rank") if rank is None else rank
    raise FormError("a batch such as [1764.5, [event, …], 0], or a map with its events", found)
