"""SGLang's HiCacheFile returns a page with a flipped bit, and a second put does not mend it (STORE-08, STORE-09).

The files hold the bytes of the page and nothing else, so nothing can tell what was written from what is there
now; and a put whose file exists is skipped.

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
page = torch.arange(64, dtype=torch.uint8)
store.set("k", page)
(file,) = folder.glob("k*")
data = bytearray(file.read_bytes())
data[10] ^= 16
file.write_bytes(data)

found = store.get("k", torch.zeros(64, dtype=torch.uint8))
wrong = found is not None and not torch.equal(found, page)
print(f"a page with a flipped bit: {'returned as it is' if wrong else 'a miss'} (expected a miss)")
said = store.set("k", page)
found = store.get("k", torch.zeros(64, dtype=torch.uint8))
lost = found is None or not torch.equal(found, page)
print(f"put again: {said}; then {'still the wrong bytes' if lost else 'the right bytes'} (expected the right bytes)")
sys.exit(bool(wrong or lost))
