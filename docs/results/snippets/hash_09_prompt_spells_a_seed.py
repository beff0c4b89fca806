"""SGLang 0.5.23: a prompt of no tenant has the names of a tenant's pages in storage (HASH-09; BACKUP-05, TIER-07).

The name of a page is the SHA-256 of the name before it and of its tokens; what precedes the first page of a tenant is
the SHA-256 of a text with the tenant's `cache_salt` in it, and nothing precedes the first page of a request without a
tenant.  Both are hashed alike.  So a prompt whose first page has the bytes of that text gets the tenant's seed as the
name of its first page, and from its second page on the names of the tenant's pages.  Page 16, a salt of 29 bytes.

The names are SGLang's own (`get_storage_hash_str`), and so is the storage (`HiCacheFile`).  SGLang hashes in a C++
extension that it compiles on first use; where that can't be done, the same bytes are hashed by hashlib, and it says so.
Exits 1 if the fault shows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import struct
import sys
import tempfile
from array import array

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheFile, HiCacheStorageConfig
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.utils import get_storage_hash_str, storage_namespace_seed

native_hash = importlib.import_module("sglang.srt.mem_cache.cpp_utils.native_hash")
PAGE = 16
SALT = "tenant-a/2026-11/project-blue"


class Plain:
    """What the extension computes, for tokens of 32 bits."""

    @staticmethod
    def get_hash(raw: array, length: int, _width: int, _bigram: bool, prior: bytes | None, page: int) -> list[str]:
        """The names of whole pages."""
        names = []
        for start in range(0, length, page):
            tokens = raw[start : min(start + page, length)]
            prior = hashlib.sha256((prior or b"") + struct.pack(f"<{len(tokens)}I", *tokens)).digest()
            names.append(prior.hex())
        return names


try:
    native_hash._load_native_hash_module()  # noqa: SLF001
except Exception:  # whatever is missing: a compiler, or what it needs
    print("SGLang's hash extension can't be compiled here; hashing the same bytes with hashlib")
    native_hash._load_native_hash_module = lambda: Plain  # noqa: SLF001


def names(tokens: list[int], salt: str | None) -> list[str]:
    """The names of a request's pages."""
    key = RadixKey(array("q", tokens), None, cache_salt=salt)
    found = get_storage_hash_str(key, None, page_size=PAGE)
    assert isinstance(found, list)
    return found


tokens = list(range(1000, 1000 + PAGE))
text = b"sglang-cache-namespace-v1" + b"\0" + b"\1" + len(SALT).to_bytes(8, "little") + SALT.encode()
assert hashlib.sha256(text).hexdigest() == storage_namespace_seed(None, SALT)
spelt = list(struct.unpack(f"<{PAGE}I", text))
print(f"the first page of the prompt: {spelt}")

tenant = names(tokens, SALT)
crafted = names(spelt + tokens, None)
same = crafted[1] == tenant[0]
print(f"the tenant's first page is {tenant[0][:16]}…, the prompt's second one {crafted[1][:16]}… (expected another)")

known = {field.name for field in dataclasses.fields(HiCacheStorageConfig)}
given = {"tp_size": 1, "pp_size": 1, "attn_cp_size": 1, "dcp_size": 1, "model_name": "m", "extra_config": None}
config = HiCacheStorageConfig(**{name: given.get(name, 0) for name in known})
holder = tempfile.TemporaryDirectory()
store = HiCacheFile(config, file_path=holder.name)
page = torch.arange(64, dtype=torch.uint8)
store.set(tenant[0], page)
found = store.get(crafted[1], torch.zeros(64, dtype=torch.uint8))
read = found is not None and torch.equal(found, page)
print(f"the prompt asks storage for its second page: {'it is the page of the tenant' if read else 'a miss'}")
sys.exit(bool(same or read))
