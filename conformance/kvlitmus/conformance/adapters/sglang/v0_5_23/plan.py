"""Which modules of SGLang 0.5.23 are real, and what stands in for the rest of it."""

from __future__ import annotations

from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Plan

PLATFORM = SimpleNamespace(capabilities=SimpleNamespace(supports_triton=False))

UNIFIED = f"{MEM}.unified_cache"
COMMON = "srt/utils/common.py"

PLAN = Plan(
    release="0.5.23",
    real=frozenset(
        [
            *(
                f"{MEM}.{name}"
                for name in (
                    "allocator",
                    "allocator.base",
                    "allocator.page_interleave",
                    "allocator.paged",
                    "allocator.token",
                    "base_prefix_cache",
                    "buffer_mode.storage_existence_cache",
                    "cache_init_params",
                    "common",
                    "cpp_utils.native_hash",
                    "events",
                    "evict_policy",
                    "hicache_storage",
                    "host_memory",
                    "pool_host.base",
                    "pool_host.common",
                    "radix_cache",
                    "rust_tree_core",
                    "rust_tree_core.adapter",
                    "rust_tree_core.extension",
                    "rust_tree_core.mem_cache",
                    "storage_prefetch",
                    "unified_radix_cache",
                    "utils",
                )
            ),
            UNIFIED,
            *(
                f"{UNIFIED}.{name}"
                for name in (
                    "cache_action",
                    "component_type",
                    "components",
                    "components.base",
                    "components.full",
                    "components.mamba",
                    "components.swa",
                    "session_ref_tracker",
                    "tree_core_registry",
                    "unified_tree_core",
                    "unified_tree_core_interface",
                )
            ),
            "sglang.kernels.ops.memory.allocator",
            "sglang.srt.disaggregation.kv_events",
            "sglang.srt.environ",
            "sglang.srt.rust_extensions",
            "sglang.srt.rust_extensions.loader",
            "sglang.srt.rust_extensions.torch_build",
            "sglang.srt.session.streaming_session",
            "sglang.srt.utils.poll_timer",
            "sglang.srt.utils.rank_consensus_checker",
        ]
    ),
    lifted={
        "sglang.srt.utils": {COMMON: ("assert_int64_array", "get_num_new_pages", "next_power_of_2")},
        "sglang.srt.utils.common": {COMMON: ("ceil_align", "ceil_div")},
        "sglang.srt.managers.schedule_batch": {
            COMMON: ("ceil_align", "ceil_div"),
            "srt/managers/schedule_batch.py": ("ReqKvInfo",),
        },
    },
    answers={
        "sglang.srt.platforms": {"current_platform": PLATFORM},
        "sglang.srt.runtime_context": {
            "get_serving": lambda: SimpleNamespace(strip_thinking_cache=False),
            "get_spec": lambda: SimpleNamespace(speculative_algorithm=None),
        },
    },
    absent=("zmq", "pydantic"),
)
