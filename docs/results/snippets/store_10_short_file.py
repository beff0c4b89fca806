"""SGLang's HiCacheFile raises for one short file, and the whole batch is lost with it (STORE-10).

Upstream: https://github.com/sgl-project/sglang/pull/39269, where it ends the thread that prefetches.

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
folder = Path(holder.name)
store = HiCacheFile(config, file_path=str(folder))
for key in "abc":
    store.set(key, torch.full((64,), ord(key), dtype=torch.uint8))
(file,) = folder.glob("b*")
file.write_bytes(file.read_bytes()[:32])
print(f"exists for a, b, c: {store.batch_exists(['a', 'b', 'c'])} (b is short)")
try:
    found = store.batch_get(["a", "b", "c"], [torch.zeros(64, dtype=torch.uint8) for _ in range(3)])
except OSError as error:
    print(f"batch_get raised {type(error).__name__}: {str(error).partition(' for ')[0]} (expected pages for a and c)")
    sys.exit(1)
print(f"batch_get: {[one is not None for one in found]}")
