"""SGLang's HiCacheFile makes the key part of a path: a key can name a file outside of the folder (STORE-15, STORE-18).

SGLang's own keys are page hashes, so this takes a caller who lets keys in from elsewhere.

Exits 1 if the fault shows.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheFile, HiCacheStorageConfig

fields = dict.fromkeys((field.name for field in dataclasses.fields(HiCacheStorageConfig)), 0)
fields |= {"tp_size": 1, "pp_size": 1, "attn_cp_size": 1, "dcp_size": 1, "model_name": "m", "extra_config": None}
known = {field.name for field in dataclasses.fields(HiCacheStorageConfig)}
config = HiCacheStorageConfig(**{name: value for name, value in fields.items() if name in known})
holder = tempfile.TemporaryDirectory()
yard = Path(holder.name)
store = HiCacheFile(config, file_path=str(yard / "store"))
said = store.set("../stray", torch.zeros(64, dtype=torch.uint8))
strays = sorted(path.name for path in yard.iterdir() if path.name != "store")
print(f"put under '../stray': {said}; beside the store's folder lies {strays} (expected nothing)")
store.set("./k", torch.zeros(64, dtype=torch.uint8))
print(f"put under './k'; is 'k' there? {store.exists('k')} (expected False)")
sys.exit(bool(strays))
