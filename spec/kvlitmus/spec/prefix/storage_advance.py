"""What storage was asked and given, what it is known to have, and what is owed to it.

The part of :mod:`kvlitmus.spec.prefix.work_advance` about storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from kvlitmus.spec.interface.tiers import BACKUP, PUT
from kvlitmus.spec.prefix.seen import Record, TierSeen
from kvlitmus.spec.prefix.work import Misnamed, Stored, Tiers, Work
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name


def note_name(stored: Stored, prefix: Name, name: str) -> Stored:
    """Storage was asked for this prefix, or given it, under this name."""
    names = stored.names_of.get(prefix, frozenset())
    prefixes = stored.prefixes_of.get(name, frozenset())
    if name in names and prefix in prefixes:
        return stored
    if names and name not in names:
        stored = stored._replace(many_names=(*stored.many_names, Misnamed(prefix, prefix, name, min(names))))
    if prefixes and prefix not in prefixes:
        stored = stored._replace(many_prefixes=(*stored.many_prefixes, Misnamed(prefix, min(prefixes), name, name)))
    return stored._replace(
        names_of={**stored.names_of, prefix: names | {name}},
        prefixes_of={**stored.prefixes_of, name: prefixes | {prefix}},
    )


def query_told(record: Record) -> tuple[list[str], int]:
    """The names that a query asked for, in order, and how many of them storage said that it has."""
    asked: list[str] = []
    hit, open_ = 0, True
    for names, answer in record.asked:
        asked += [name for name in names if name not in asked]
        if open_:
            hit += answer
            open_ = answer == len(names)
    return asked, hit


def query_hit_of(setting: Setting, work: Work, record: Record) -> int:
    """How many units storage told a query that it has."""
    return min(query_told(record)[1], len(work.names)) * setting.size


def last_of(contents: Sequence[int]) -> Name:
    """The prefix whose page has these contents: its last token's."""
    return Name(contents[-1]) if contents else Name(-1)


def note_puts(tiers: Tiers, record: Record) -> tuple[Tiers, bool]:
    """Puts were made; whether storage refused any of them."""
    stored, refused = tiers.stored, False
    for name, contents, accepted in record.puts:
        if refused:
            stored = stored._replace(put_behind=(*stored.put_behind, name))
        refused |= not accepted
        last = last_of(contents)
        if stored.units_of.get(last) != contents:
            stored = stored._replace(put_wrong=(*stored.put_wrong, (name, contents)))
            continue
        stored = note_name(stored, last, name)
        if accepted:
            stored = accept(stored, last)
    return (tiers if stored is tiers.stored else tiers._replace(stored=stored)), refused


def accept(stored: Stored, name: Name) -> Stored:
    """Storage has taken a page."""
    stored = stored._replace(pages=stored.pages | {name})
    if name in stored.refused or name in stored.lost or name in stored.gone:
        own = {name}
        stored = stored._replace(refused=stored.refused - own, lost=stored.lost - own, gone=stored.gone - own)
    return stored


def cut_off(tiers: Tiers, names: Sequence[Name]) -> Tiers:
    """A put has ended with some of these pages refused, or never tried: they are not owed before they are used again."""
    rest = frozenset(names) - tiers.stored.pages
    return tiers._replace(stored=tiers.stored._replace(refused=tiers.stored.refused | rest), backed=tiers.backed - rest)


def detached(tiers: Tiers) -> Tiers:
    """Storage is gone; what it has lost until then counts as lost for a cache that attaches it."""
    stored = tiers.stored
    stored = stored._replace(gone=stored.gone | stored.lost, lost=frozenset(), refused=frozenset())
    return tiers._replace(attached=False, stored=stored, backed=frozenset(), used=frozenset(), owed=frozenset())


def attached(tiers: Tiers, storage: int) -> Tiers:
    """This storage is there."""
    stored = tiers.stored
    if storage != tiers.storage:
        shelves = {**tiers.shelves, tiers.storage: tiers.shelf}
        stored = stored._replace(pages=shelves.get(storage, frozenset()), told=frozenset(), gone=frozenset())
        tiers = tiers._replace(storage=storage, shelves=shelves, stored=stored)
    return tiers._replace(attached=True)


def owing(tiers: Tiers, path: Sequence[Name], after: TierSeen) -> Tiers:
    """A path was used by an insertion: what of it is on the host, neither in storage nor on its way there, is owed.

    Only pages that nothing is missing before: others could not be found.  Where memory may have run out, nobody knows
    what could begin.
    """
    if not tiers.attached:
        return tiers
    backed = frozenset(takewhile(after.hosted.__contains__, path))
    if not backed <= tiers.used:
        tiers = tiers._replace(used=tiers.used | backed)
    lacking = set(backed - tiers.shelf)
    if not lacking or tiers.starved:
        return tiers
    lacking.difference_update(*[work.names for work in tiers.work.values() if work.job.kind in (BACKUP, PUT)])
    return tiers._replace(owed=tiers.owed | lacking) if lacking else tiers


def lose(tiers: Tiers, name: str) -> Tiers:
    """Storage has lost what it has under a name, or cut it short."""
    stored = tiers.stored
    return tiers._replace(stored=stored._replace(lost=stored.lost | stored.prefixes_of.get(name, frozenset())))
