"""How one page is written down, wherever it is stored: a header, the key, the page.

The header holds both lengths, the identity of the store, and a checksum over all of these, the key and the page.  So
whoever reads a record knows without trusting anybody whether it is the page that was asked for, whole and unchanged:
one that is short, long, changed, of another store or under another's name is none.
"""

from __future__ import annotations

import hashlib
import struct

from kvlitmus.optimized.storage.base import Buffer, Identity

MAGIC = b"KVLPAGE1"
HEAD = struct.Struct("<8sIQ32s32s")
"""Magic, length of the key, length of the page, identity, checksum; the key and the page follow."""

KEY_BYTES = 1024
"""A key of more bytes than this is refused."""


def name_of(identity: Identity, key: str) -> str | None:
    """64 hex digits that stand for this key in this store; ``None`` for a key that is refused.

    Refused are empty keys, those of more than :data:`KEY_BYTES` bytes, and text that is no Unicode.
    """
    try:
        text = key.encode()
    except UnicodeEncodeError:
        return None
    if not 0 < len(text) <= KEY_BYTES:
        return None
    return hashlib.sha256(identity.digest + text).hexdigest()


def head_of(identity: Identity, key: str, page: Buffer) -> bytes:
    """What precedes the bytes of this page in its record."""
    text = key.encode()
    # A keyed BLAKE2b: faster than SHA-256, and the key binds the page to this identity.
    checksum = hashlib.blake2b(struct.pack("<Q", len(text)) + text, key=identity.digest, digest_size=32)
    checksum.update(page)
    return HEAD.pack(MAGIC, len(text), len(page), identity.digest, checksum.digest()) + text


def promised(identity: Identity, key: str, head: bytes) -> int | None:
    """The length of the page in a record that begins so, if it is this key's; the page itself isn't checked."""
    text = key.encode()
    if len(head) < HEAD.size + len(text):
        return None
    magic, key_length, length, stored_identity, _ = HEAD.unpack_from(head)
    found = (magic, key_length, stored_identity, head[HEAD.size : HEAD.size + len(text)])
    return int(length) if found == (MAGIC, len(text), identity.digest, text) else None


def head_length(key: str) -> int:
    """How many bytes of a record of this key precede the page."""
    return HEAD.size + len(key.encode())


def page_in(identity: Identity, key: str, record: bytes | bytearray) -> memoryview | None:
    """The page in a record, if it is this key's and whole."""
    start = head_length(key)
    page = memoryview(record)[start:]
    if len(record) < start or bytes(record[:start]) != head_of(identity, key, page):
        return None
    return page
