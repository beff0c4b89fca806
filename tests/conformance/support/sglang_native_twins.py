"""SGLang 0.5.23's two trees side by side under the suite: ``TARGET STEPS [SLIP]``, as JSON.

Each call of the suite goes to a target with the tree in Python and to the same with the compiled one, and both must
answer the same: hits and their places, what a receipt covers, what is evicted and what is left, and after each call
every entry of both tiers and every free place.  So what the adapter reads off the compiled tree is compared with the
nodes of the other.

Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from typing import Any

from kvlitmus.conformance.adapters.sglang.v0_5_23 import component_host, components, native_components
from kvlitmus.conformance.ports import Config
from tests.conformance.support.sglang_components import drawn
from tests.conformance.support.sglang_native_slips import SLIPS

HANDLES = {"component_match": 2, "component_lock": 0, "component_back_up": 0, "component_load": 0}
"""Where in its answer a call has what is each side's own: a handle, a receipt, or a copy."""


class Both(tuple[Any, ...]):
    """What is each side's own."""

    __slots__ = ()


def plain(answer: Any) -> Any:
    """An answer, as it can be compared."""
    if isinstance(answer, dict):
        return {name: plain(one) for name, one in answer.items()}
    if isinstance(answer, list):
        return sorted(answer, key=repr)
    return answer


class Pair:
    """A cache that is two."""

    def __init__(self, python: Any, compiled: Any) -> None:
        self.sides = (python, compiled)
        for name in dir(python):
            if name.startswith("component_"):
                setattr(self, name, partial(self.call, name))

    def call(self, name: str, *arguments: Any) -> Any:
        """A call to both, each with its own."""
        said = []
        for at, side in enumerate(self.sides):
            own = [one[at] if isinstance(one, Both) else one for one in arguments]
            said.append(getattr(side, name)(*own))
        return self.same(name, *said)

    def same(self, name: str, first: Any, second: Any) -> Any:
        """The answer that both gave."""
        if name not in HANDLES or first is None or second is None:
            assert plain(first) == plain(second), f"{name}: {first} in Python, {second} compiled"
            return first
        at = HANDLES[name]
        shown = [[plain(one) for one in (*said[:at], said[at] is None, *said[at + 1 :])] for said in (first, second)]
        assert shown[0] == shown[1], f"{name}: {first} in Python, {second} compiled"
        own = None if first[at] is None else Both((first[at], second[at]))
        return (*first[:at], own, *first[at + 1 :])


def main(name: str, steps: str, slip: str = "") -> dict[str, list[str]]:
    """The rules that are broken, of which that nothing may raise says where the two part."""
    python = getattr(component_host if name.endswith("_hosted") else components, name)
    compiled = getattr(native_components, f"{name}_rust")

    def build(config: Config) -> Pair:
        made = compiled.build(config)
        if slip:
            SLIPS[slip](made)
        return Pair(python.build(config), made)

    return drawn(replace(python, build=build), int(steps))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
