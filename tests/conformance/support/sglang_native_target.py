"""The suite on SGLang 0.5.23's unified cache with components and its compiled tree: ``TARGET STEPS [SLIP]``, as JSON.

With no steps: what the tree of each configuration is.  Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

from kvlitmus.conformance.adapters.sglang.v0_5_23 import native_components
from tests.conformance.support.sglang_components import drawn, slipped
from tests.conformance.support.sglang_native_slips import SLIPS


def tree_of(cache: Any) -> list[Any]:
    """The class of a cache's tree, that of what it asks, whether that is compiled, and the ending of its file."""
    core = cache.cache.tree_core
    binding = core._binding
    return [
        type(core).__name__,
        type(binding).__name__,
        inspect.isbuiltin(binding.match_prefix),
        Path(core._bindings.__file__).suffix,
    ]


def main(name: str, steps: str, slip: str = "") -> Any:
    """The rules that litmus tests and drawn schedules break."""
    target = getattr(native_components, name)
    if steps == "0":
        return [tree_of(target.build(config)) for config in target.configs]
    return drawn(slipped(target, SLIPS[slip] if slip else None), int(steps))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
