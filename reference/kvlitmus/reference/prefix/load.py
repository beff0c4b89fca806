"""Host to device: what is cached on the host alone is brought back before it is computed with.

A **load back** is all or nothing: every page behind the resident prefix comes back, or none does.  Its pages are
resident at once, in slots whose contents arrive when the copy lands; until a tick acknowledges it the path is locked,
and the host copies that it reads from are pinned.  The host copies stay.

A load whose copy can't begin is declined.  One that has failed is noted by the tick like one that has landed, and given
up: its pages are on the host alone again.  Where somebody depends on them (a lock, a resident page below) they
are loaded again instead, by another job.

Room is made with both already protected: under write-back an eviction on the device may evict on the host, and would
otherwise take the very pages that are about to be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.reference.prefix import tier
from kvlitmus.reference.prefix.backup import land, let_go, over, submit
from kvlitmus.reference.prefix.choose import Choice, Names, free_pages, hand_out
from kvlitmus.reference.prefix.hierarchy import begins, change, lock, pin, unlock
from kvlitmus.reference.prefix.pool import slots_of
from kvlitmus.spec.interface.tiers import LOAD, Loaded
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.own_work import Transfer
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import LoadBack
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tokens

LAYERS = 3
"""How many layers a load copies, one after the other."""


def load_back(state: State, setting: Setting, call: LoadBack, choice: Choice) -> tuple[State, Loaded]:
    """Bring what a key has on the host alone to the device: the units resident before, and the new slots.

    ``None`` instead of slots when they are fewer units than is worth a copy, when device memory is short, or when the
    copy can't begin; then nothing has changed but recency and what was evicted.
    A quota limits how many units are loaded and newly locked together.
    """
    names, size = call.path.pages, setting.size
    state, there, behind = tier.match_all(state, setting, names)
    before = Tokens(there * size)
    declined = Loaded(before, None)
    locked = sum(not state.device.pages[name].locks for name in names[:there])
    dear = call.quota is not None and (behind + locked) * size > call.quota
    if behind * size < setting.profile.load_threshold or dear:
        return state, declined
    if not behind:
        return state, declined if choice.declined else Loaded(before, ())
    end, sources = call.path.end(there), names[there : there + behind]
    state = room(pin(lock(state, end), sources), setting, behind, choice)
    state = unlock(state, end)
    pages = hand_out(free_pages(state, setting), behind, choice.pages)
    if pages is None:
        return pin(state, sources, -1), declined
    state, can = begins(state, LOAD)
    if not can:
        return pin(state, sources, -1), declined
    return submit(make_resident(state, sources, pages), LOAD, sources, choice), Loaded(before, slots_of(pages, size))


def room(state: State, setting: Setting, wanted: int, choice: Choice) -> State:
    """Evict what lacks for so many free pages of the device, or what there is."""
    return tier.evict(state, setting, wanted - len(free_pages(state, setting)), choice)[0]


def make_resident(state: State, names: Names, pages: Sequence[PageNo]) -> State:
    """Pages that were on the host alone are on the device, in these pages."""
    placed = effects.place(state.device, state.host.pages[names[0]].parent, names, pages)
    tree, host = effects.promote(placed, state.host, names)
    return state._replace(device=tree, host=host)


def copy_layers(state: State, one: Transfer, layers: int) -> State:
    """So many more layers of a load are copied and may be read; with the last of :data:`LAYERS` it has landed."""
    one = one._replace(done=min(LAYERS, one.done + layers))
    return land(state, one) if one.done == LAYERS else change(state, one)


def acknowledge_loads(state: State, setting: Setting, choice: Choice) -> State:
    """Take note of the loads that have ended, as ``over`` has them: unlock the path, unpin the sources."""
    state, ended = over(state, setting, LOAD, choice)
    for one in ended:
        released = let_go(state, one)
        if not one.failed:
            state = released
        elif one.id in choice.again or _needed(released, one.names):
            state = tier.again(state, one)
        else:
            state = tier.leave_device(released, one.names[::-1])
    return state


def _needed(state: State, names: Sequence[Name]) -> bool:
    """Whether a lock covers these pages of one path, or a resident page hangs below one of them."""
    resident = state.device.pages
    below = (page.parent in names and name not in names for name, page in resident.items())
    return any(resident[name].locks for name in names) or any(below)
