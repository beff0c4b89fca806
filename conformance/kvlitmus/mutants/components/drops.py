"""Mutants of a cache of components whose hits leave their last entries out, as EAGLE needs it, and that says so."""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentTree
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.words.units import Key

_VLLM = "https://github.com/vllm-project/vllm/"
DROPPING = replace(PROFILE, component_drop="last")
CAPPED = replace(DROPPING, match_cap="len-1")


@null_mutant("null-component-drops-the-last", profile=DROPPING, configs=COMPONENT_CONFIGS)
class DropsTheLast(ComponentTree):
    """A hit ends where all components go on with one more entry, and leaves that to be computed again."""


@null_mutant("null-component-drops-of-all-but-one", profile=CAPPED, configs=COMPONENT_CONFIGS)
class DropsOfAllButOne(ComponentTree):
    """The same where a whole key is no hit anyway: its last entry is cached, and proves the one before."""


@mutant("component-drop-is-forgotten", kills=("TREE-02",), profile=DROPPING, configs=COMPONENT_CONFIGS)
class DropIsForgotten(ComponentTree):
    """A hit goes to the last boundary: the draft model has nothing to go on from."""

    def dropped(self, key: Key, best: ComponentNode | None) -> ComponentNode | None:
        return best


@mutant(
    "component-drop-leaves-no-window",
    bugs=("V05",),
    links=(f"{_VLLM}pull/17398",),
    kills=("TREE-02",),
    profile=DROPPING,
    configs=COMPONENT_CONFIGS,
)
class DropLeavesNoWindow(ComponentTree):
    """The last boundary is dropped after the window was checked: before the boundary that is left there may be none."""

    def dropped(self, key: Key, best: ComponentNode | None) -> ComponentNode | None:
        many = self.step // self.size
        for _ in range(many):
            best = best.above if best is not None else None
        return best if best is not None and best.above is not None else None


@mutant(
    "component-drop-for-each",
    bugs=("V07",),
    links=(f"{_VLLM}pull/33270", f"{_VLLM}issues/32802"),
    kills=("TREE-02", "EVENT-09"),
    profile=DROPPING,
    configs=COMPONENT_CONFIGS,
)
class DropForEach(ComponentTree):
    """Each component drops its last entry from what the one before has left: hits are shorter than they could be."""

    def dropped(self, key: Key, best: ComponentNode | None) -> ComponentNode | None:
        for _ in self.components:
            best = super().dropped(key, best)
            if best is not None:
                best = self.last_usable(self.walk(key), best.end - 1)
        return best


@mutant("component-drop-asks-for-states", kills=("TREE-02", "EVENT-09"), profile=DROPPING, configs=COMPONENT_CONFIGS)
class DropAsksForStates(ComponentTree):
    """A state is asked for behind the hit as well, though nothing is computed from there."""

    def is_followed(self, key: Key, node: ComponentNode) -> bool:
        behind = next((one.places for one in self.walk(key) if one.end == node.end + self.step), {})
        return super().is_followed(key, node) and all(one.name in behind for one in self.components)
