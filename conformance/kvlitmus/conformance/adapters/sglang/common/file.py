"""SGLang's ``HiCacheFile``, its storage in files, judged alone, of two releases.

Targets:

``file_13``
    0.5.13.post1.
``file_23``
    0.5.23, as it is by default.
``file_23_metadata``
    0.5.23 with ``enable_metadata_cache``: what was seen is remembered for five seconds.

Everything that is judged is the published class, through the calls that SGLang's controller makes:
``batch_exists_v2``, ``batch_get_v2`` and ``batch_set_v2`` for the pool KV, which answer by position, and
``batch_get`` for reading into memory of the caller.  The pool of host memory between them is a small object
with one page per slot.  A page is a tensor of bytes.

What is replaced: the rest of SGLang is stubs (:mod:`kvlitmus.conformance.adapters.sglang.common.stubs`).  The store's
folder lies in a temporary one of the suite; ranks are those of tensor parallelism with two.  A crash is the death of
a real child process in the middle of a write (:mod:`~kvlitmus.conformance.adapters.stores.dying`).

``HiCacheFile`` opens what lies under a page's name.  If that is a pipe, ``open`` waits for a writer, for ever: the
adapter looks for this one case and raises :class:`WaitsForEver` instead, so that the rest can be judged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Plan, install, torch_module
from kvlitmus.conformance.adapters.stores.folders import FolderStore
from kvlitmus.conformance.adapters.stores.target import StoreTarget

PLAN_13 = Plan(
    release="0.5.13.post1",
    real=frozenset({f"{MEM}.hicache_storage", "sglang.srt.environ"}),
)
PLAN_23 = Plan(
    release="0.5.23",
    real=frozenset(
        {f"{MEM}.hicache_storage", f"{MEM}.storage.file.lru_file_evictor", "sglang.srt.environ"},
    ),
    lifted={"sglang.srt.utils.common": {"srt/utils/common.py": ("human_readable_int",)}},
)

PLANS = {plan.release: plan for plan in (PLAN_13, PLAN_23)}
"""The plan of each release."""


def joined(plan: Plan, other: Plan) -> Plan:
    """A plan for both: everything that is real or lifted in one of them, for a script that needs both."""
    lifted = {module: dict(files) for module, files in plan.lifted.items()}
    for module, files in other.lifted.items():
        for file, names in files.items():
            known = lifted.setdefault(module, {})
            known[file] = (*known.get(file, ()), *names)
    return replace(plan, real=plan.real | other.real, lifted=lifted)


FOLDER_VARIABLE = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
KV = "kv"


class Pages:
    """What stands for the pool of host memory: one page per slot, as ``batch_get_v2`` and ``batch_set_v2`` use it."""

    page_size = 1

    def __init__(self, pages: Sequence[Foreign], size: int) -> None:
        self.pages: list[Foreign | None] = list(pages)
        self.size = size

    def get_data_page(self, index: int, flat: bool = True) -> Foreign:
        """The bytes of a page that is to be stored."""
        return self.pages[index]

    def get_dummy_flat_data_page(self) -> Foreign:
        """An empty page to read into."""
        return torch_module().zeros(self.size, dtype=torch_module().uint8)

    def set_from_flat_data_page(self, index: int, page: Foreign) -> None:
        """A page that was read."""
        self.pages[index] = page


class WaitsForEver(RuntimeError):
    """A call that would not come back."""


class SGLangFile(FolderStore):
    """``HiCacheFile`` behind the ports; the heirs say which."""

    plan = PLAN_13
    extra: dict[str, object] | None = None

    def opened(self, rank: int) -> Foreign:
        """A ``HiCacheFile`` of one rank of two; rank 0 is the one that makes the folder."""
        module = self.module
        os.environ.pop(FOLDER_VARIABLE, None)
        self.folder.mkdir(exist_ok=True)
        config = module.HiCacheStorageConfig(
            tp_rank=rank,
            tp_size=2,
            pp_rank=0,
            pp_size=1,
            attn_cp_rank=0,
            attn_cp_size=1,
            is_mla_model=False,
            enable_storage_metrics=False,
            is_page_first_layout=False,
            model_name="litmus/model",
            extra_config=self.extra,
        )
        return module.HiCacheFile(config, file_path=str(self.folder))

    @property
    def module(self) -> Foreign:
        """``hicache_storage``, as published."""
        module = install(self.plan)(f"{MEM}.hicache_storage")
        # It warns of each miss, thousands of times a second here.
        logging.getLogger(module.__name__).setLevel(logging.CRITICAL)
        return module

    def file_of(self, key: str) -> Path:
        """The file that ``get`` would read."""
        return self.folder / f"{self.handle._get_suffixed_key(key)}.bin"  # noqa: SLF001

    def store_exists(self, keys: Sequence[str]) -> int:
        """``batch_exists_v2``."""
        return int(self.handle.batch_exists_v2(list(keys)).kv_hit_pages)

    def store_get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        """``batch_get_v2``."""
        self.look_for_pipes(keys)
        pool = Pages([None] * len(keys), size)
        found = self.handle_with(pool).batch_get_v2([self.transfer(keys)])[KV]
        return [
            bytes(page.numpy()) if there and page is not None else None
            for there, page in zip(found, pool.pages, strict=True)
        ]

    def store_get_into(self, keys: Sequence[str], buffers: Sequence[bytearray]) -> Sequence[bool]:
        """``batch_get``; the tensors lie in the buffers themselves."""
        self.look_for_pipes(keys)
        torch = torch_module()
        targets = [torch.frombuffer(buffer, dtype=torch.uint8) for buffer in buffers]
        return [page is not None for page in self.handle.batch_get(list(keys), targets)]

    def look_for_pipes(self, keys: Sequence[str]) -> None:
        """Raise where ``get`` would wait for ever."""
        for key in keys:
            if self.file_of(key).is_fifo():
                raise WaitsForEver("a pipe lies in a page's place; open() waits for somebody who writes to it")

    def store_put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        """``batch_set_v2``."""
        torch = torch_module()
        pages = [torch.frombuffer(bytearray(value), dtype=torch.uint8) for value in values]
        stored = self.handle_with(Pages(pages, 0)).batch_set_v2([self.transfer(keys)])[KV]
        return [bool(one) for one in stored]

    def store_clear(self) -> None:
        """``clear``."""
        self.handle.clear()

    def handle_with(self, pool: Pages) -> Foreign:
        """The store, with these pages as its pool KV."""
        handle = self.handle
        handle.registered_pools = {KV: pool}
        return handle

    def transfer(self, keys: Sequence[str]) -> Foreign:
        """All pages of the pool, under these keys."""
        indices = torch_module().arange(len(keys))
        return self.module.PoolTransfer(name=KV, host_indices=indices, keys=list(keys))


class SGLangFile23(SGLangFile):
    """The same of 0.5.23."""

    plan = PLAN_23


class SGLangFile23Metadata(SGLangFile23):
    """The same with its metadata cache."""

    extra = {"enable_metadata_cache": True}  # noqa: RUF012 - SGLang wants a dict, and only reads it


def _target(adapter: type[SGLangFile]) -> StoreTarget:
    """A target made of a release's ``HiCacheFile``; it keeps the first of two values, and skips the second."""

    def build() -> SGLangFile:
        install(adapter.plan)
        return adapter()

    return StoreTarget(build, version=adapter.plan.judged)


file_13 = _target(SGLangFile)
file_23 = _target(SGLangFile23)
file_23_metadata = _target(SGLangFile23Metadata)
