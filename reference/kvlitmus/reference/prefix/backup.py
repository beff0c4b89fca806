"""Device to host: which pages are backed up, when, and what protects them meanwhile.

Under **write-through** a page is due when an insert uses it for the first time, under **selective write-through**
for the second time; under write-back nothing is due (see :mod:`~kvlitmus.reference.prefix.tier`).  Backed pages are
prefix-closed: a page waits until its parent is backed, or, where the choice is ``chain``, takes its ancestors along.

A page gets its host slots when its backup is *submitted*, and counts as backed from then on; the contents are there
when the copy has *landed*.  In between the device slots must stay what they are: the path to the end of the run is
locked, until a tick *acknowledges* the copy.  Acknowledgements come in the order of submission: a copy that has not
landed holds up those behind it.

A copy can *fail*.  If it can't begin, the page waits for its next use as if host memory were short.  If it fails under
way, the tick that comes to it frees its host slots: the page is not backed, and due again.  Where something depends on
the host copy (a copy below it, a pin) it is copied again instead, by another job.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from kvlitmus.reference.prefix import tier
from kvlitmus.reference.prefix.choose import Choice, Names
from kvlitmus.reference.prefix.hierarchy import begins, change, lock, pin, under_way, unlock, without, works_of
from kvlitmus.reference.prefix.put import start_puts
from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.prefix.own_work import Transfer
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name


def due(state: State, setting: Setting, names: Sequence[Name], choice: Choice) -> tuple[Names, ...]:
    """The nodes of this path, all resident, that are to be backed up now, parents first.

    What isn't backed is the end of the path; how much of it is due is the policy's:
    :func:`kvlitmus.spec.words.policies.due`. Where insertions aren't what counts, only this one is known; what the
    choice says of the others goes.
    """
    copies, resident = state.host.pages, state.device.pages
    nodes: list[list[Name]] = []
    for name in names:
        if name not in copies:
            if resident[name].first or not nodes:
                nodes.append([])
            nodes[-1].append(name)
    counted = setting.profile.hit_counts == "insert"
    hot = [
        choice.uncounted or policies.hot(setting.config.write, resident[node[0]].hits if counted else 1)
        for node in nodes
    ]
    return tuple([tuple(node) for node in nodes[: policies.due(hot, setting.profile.backup_parent)]])


def used(state: State, setting: Setting, names: Sequence[Name], choice: Choice) -> State:
    """What follows from an insert that uses these pages, all resident: backups that are due, puts that are outstanding.

    What follows a page that isn't backed up could not be found in storage, so it waits.
    """
    state = begin_backups(state, setting, names, choice)
    if choice.postponed:
        works = works_of(state)
        state = state._replace(works=works._replace(postponed=(*works.postponed, tuple(names))))
    copies = state.host.pages
    return state if choice.late else start_puts(state, list(takewhile(lambda name: name in copies, names)))


def begin_backups(state: State, setting: Setting, names: Sequence[Name], choice: Choice) -> State:
    """Begin to back up what is due of a path, all resident.

    A node for which there isn't enough host memory, whose copy can't begin, or which a filter declines, waits for its
    next use, and so does what is below it.
    """
    for run in [run for node in due(state, setting, names, choice) for run in cut(node, choice.copies)]:
        if (choice.filtered or choice.postponed) and run not in choice.copies:
            break
        state, pages = tier.allocate_or_evict(state, setting, run, choice)
        if pages is None:
            break
        state, can = begins(state, BACKUP)
        if not can:
            state = tier.free(state, pages)
            break
        state = tier.back(tier.cut(state, run[-1]), run, pages, settled=False, stored=False)
        state = submit(state, BACKUP, run, choice)
    return state


def begin_postponed(state: State, setting: Setting, choice: Choice) -> State:
    """Begin the backups that insertions have left to this tick, of what is on the device still."""
    works = works_of(state)
    state = state._replace(works=works._replace(postponed=())) if works.postponed else state
    for path in works.postponed:
        resident = list(takewhile(state.device.pages.__contains__, path))
        state = begin_backups(state, setting, resident, choice)
    return state


def cut(node: Names, copies: Sequence[Names]) -> list[Names]:
    """The pages of a node in runs: those that have a copy of their own, and the rest."""
    bounds = {0, len(node)}
    for run in copies:
        if set(run) <= set(node):
            bounds |= {node.index(run[0]), node.index(run[-1]) + 1}
    return [node[start:end] for start, end in pairwise(sorted(bounds))]


def submit(state: State, kind: str, names: Names, choice: Choice) -> State:
    """A copy between the tiers is under way: the path to its last page, which is resident, is locked.

    Where the choice is to copy at once, it is over already, and noted.
    """
    works = works_of(state)
    one = Transfer(works.serial + 1, kind, names)
    works = works._replace(transfers=(*works.transfers, one), serial=one.id)
    state = lock(state._replace(works=works), names[-1])
    if choice.at_once:
        return noted(land(state, one), one)
    return land(state, one) if choice.landed else state


def noted(state: State, one: Transfer) -> State:
    """A copy between the tiers that was just made is taken note of in the same call: there is no job."""
    state = let_go(without(state, [one]), one)
    return start_puts(state, one.names) if one.kind == BACKUP else state


def let_go(state: State, one: Transfer) -> State:
    """A copy between the tiers that is over protects nothing any more: not its path, nor, of a load, its sources."""
    state = unlock(state, one.names[-1])
    return state if one.kind == BACKUP else pin(state, one.names, -1)


def land(state: State, one: Transfer) -> State:
    """A copy between the tiers has reached its end: what it was to fill has its contents now."""
    works = works_of(state)
    if one.kind == BACKUP:
        state = state._replace(works=works._replace(settled=works.settled.union(one.names)))
    return change(state, one._replace(landed=True))


def fail(state: State, one: Transfer) -> State:
    """A copy between the tiers has failed: it is over, no layer of it counts, what it was to fill holds anything."""
    return change(state, one._replace(landed=True, failed=True, done=0))


def over(state: State, setting: Setting, kind: str, choice: Choice) -> tuple[State, tuple[Transfer, ...]]:
    """The copies of a kind that are over, and the state without them; in order, up to the first that is not.

    The choice may be fewer of them.
    """

    def ends(one: Transfer) -> bool:
        return one.landed and (choice.ended is None or one.id in choice.ended)

    these = under_way(state, kind)
    in_order = setting.profile.copy_acks == "in_order"
    ended = tuple(takewhile(ends, these) if in_order else filter(ends, these))
    return without(state, ended), ended


def acknowledge_backups(state: State, setting: Setting, choice: Choice) -> State:
    """Take note of the backups that have ended, as ``over`` has them: unlock, and begin to put."""
    state, ended = over(state, setting, BACKUP, choice)
    for one in ended:
        if one.failed and (one.id in choice.again or _needed(state, one.names)):
            state = tier.again(state, one)
            continue
        state = let_go(state, one)
        state = tier.unback(state, one.names) if one.failed else start_puts(state, one.names)
    return state


def _needed(state: State, names: Names) -> bool:
    """Whether something depends on the host copies of these pages of one path: a pin, or a host copy below them."""
    copies = state.host.pages
    below = (copy.parent in names and name not in names for name, copy in copies.items())
    return any(copies[name].locks for name in names) or any(below)
