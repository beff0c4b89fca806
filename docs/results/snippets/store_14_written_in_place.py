"""SGLang 0.5.13.post1: a writer that dies leaves half a page under its final name (STORE-11, STORE-14).

The child's files may not grow beyond 32 bytes, so the system ends it in the middle of the page.

Exits 1 if the fault shows; 0.5.23 writes a temporary file and renames it.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
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
child = os.fork()
if not child:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (32, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    store.set("k", page)
    os._exit(0)
os.waitpid(child, 0)
there = store.exists("k")
try:
    found = store.get("k", torch.zeros(64, dtype=torch.uint8))
    text = "a miss" if found is None else "a page"
except OSError as error:
    text = f"{type(error).__name__}: {str(error).partition(' for ')[0]}"
print(f"after a writer died at byte 32 of 64: exists {there} (expected False), get: {text} (expected a miss)")
sys.exit(bool(there))
