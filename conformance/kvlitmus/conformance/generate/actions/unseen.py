"""Actions below the device of a hierarchy that shows no snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import tree, unseen
from kvlitmus.conformance.generate.actions.registry import action
from kvlitmus.conformance.generate.actions.tiers import wanted

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller


@action("go_on")
def go_on(caller: Caller, a: int, b: int, c: int) -> None:
    """A job ends, or a tick passes."""
    if unseen.CAPABILITY not in caller.checker.capabilities:
        return
    if b % 3:
        unseen.go_on(caller.checker, a)
    else:
        unseen.tick(caller.checker)


@action("restore")
def restore(caller: Caller, a: int, b: int, c: int) -> None:
    """A key comes back to the device, and is found there."""
    if unseen.CAPABILITY not in caller.checker.capabilities:
        return
    key = wanted(caller, a, b, c)
    unseen.restore(caller.checker, key)
    tree.match(caller.checker, key)
