"""Page names of the scheme kvlitmus-2 with nothing but hashlib: where the golden vectors are from.

.venv/bin/python tests/reference/support/known_names.py
"""

from __future__ import annotations

from hashlib import sha256
from struct import pack


def text(one: str) -> bytes:
    return b"\x01" + pack("<Q", len(one.encode())) + one.encode()


def names(units: list[list[int]], page: int, namespace: str | None, kind: str, prior: str | None = None) -> list[str]:
    """The names of whole pages; each unit is the list of its tokens, ``kind`` is ``token`` or ``bigram``."""
    tenant = b"\x00" if namespace is None else text(namespace)
    last = sha256(b"kvs" + text("kvlitmus-2") + text(str(page)) + text(kind) + tenant + b"\x00").digest()
    last = bytes.fromhex(prior) if prior else last
    found = []
    for at in range(0, len(units) // page * page, page):
        tokens = [token for unit in units[at : at + page] for token in unit]
        last = sha256(b"kvp" + last + pack(f"<{len(tokens)}I", *tokens)).digest()
        found.append(last.hex())
    return found


if __name__ == "__main__":
    from kvlitmus.conformance.litmus.prefix.hashing_table import VECTORS

    for one in VECTORS["kvlitmus-2"]:
        key = one.key
        units = [list(unit) if isinstance(unit, tuple) else [unit] for unit in key.units]
        kind = "bigram" if key.bigram else "token"
        print(one.name, *names(units, one.page_size, key.namespace, kind, one.prior), sep="\n    ")
