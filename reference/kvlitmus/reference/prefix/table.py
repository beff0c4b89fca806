"""A block table: where a prefix is found that has several places, and what is lost when pages are handed out.

The effects are those of :mod:`kvlitmus.spec.prefix.tables`.  What is left to the cache is which of the free pages it
hands out, whatever is found in them, and which place of a prefix it answers with.
"""

from __future__ import annotations

from kvlitmus.reference.prefix.choose import Choice, Names, refuse
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.units import Name, PageNo


def places(state: State) -> dict[Name, list[PageNo]]:
    """Where each entered page is, the lowest place first."""
    found: dict[Name, list[PageNo]] = {}
    for page in sorted(state.table):
        found.setdefault(state.table[page].name, []).append(page)
    return found


def find(state: State, covered: Names, choice: Choice) -> tuple[PageNo, ...]:
    """A place of each of these cached pages: the lowest, unless chosen."""
    legal = places(state)
    if choice.found is None:
        return tuple([legal[name][0] for name in covered])
    if len(choice.found) != len(covered):
        refuse(f"{len(covered)} pages are found, not {len(choice.found)}")
    strange = [page for name, page in zip(covered, choice.found, strict=True) if page not in legal[name]]
    if strange:
        refuse(f"{strange} are no places of what is found there")
    return choice.found


def after(before: State, state: State, choice: Choice) -> State:
    """The state after a call: what is cached is said to be at the lowest of its places.

    Raises ``ValueError`` where other pages were chosen to be lost than those that were found in what was handed out.
    """
    lost = before.device.pages.keys() - state.device.pages.keys()
    if choice.victims is not None and lost != set(choice.victims):
        refuse(f"{sorted(lost)} are lost, not {sorted(choice.victims)}")
    if state.table is before.table:
        return state
    return state._replace(device=effects.move(state.device, {name: pages[0] for name, pages in places(state).items()}))
