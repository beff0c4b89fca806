"""Ways to change a sparse host pool that nobody asked for: the row that a call is about, or another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvlitmus.conformance.specimen.sparse import NO_SLOT, RowTable
from kvlitmus.mutants.disturb_kinds import Excuse, Gone, Way
from kvlitmus.spec.law.on import On

OnRow = Callable[[RowTable, int], bool]
"""Change a row; whether that could be done."""


def gains(table: RowTable, row: int) -> bool:
    """A row has a page more, which was free."""
    length = table.lengths[row]
    if not length or length + table.page > table.width or len(table.free_slots) < table.page:
        return False
    table.table[row][length : length + table.page] = table.take(1) or []
    table.lengths[row] += table.page
    return True


def loses(*, returned: bool) -> OnRow:
    """A row has a page less, which is free, or lost."""

    def change(table: RowTable, row: int) -> bool:
        length = table.lengths[row]
        if not length:
            return False
        last = slice(length - table.page, length)
        if returned:
            table.give_back(table.table[row][last])
        table.table[row][last] = [NO_SLOT] * table.page
        table.lengths[row] -= table.page
        return True

    return change


def doubled(table: RowTable, row: int) -> bool:
    """A page that a row has is free, too."""
    if not table.lengths[row]:
        return False
    table.give_back(table.table[row][: table.page])
    return True


def swapped(table: RowTable, row: int) -> bool:
    """The first and the last slot of a row are swapped."""
    slots, last = table.table[row], table.lengths[row] - 1
    if last < 1:
        return False
    slots[0], slots[last] = slots[last], slots[0]
    return True


def moved(table: RowTable, row: int) -> bool:
    """The first page of a row is another one, which was free."""
    new = table.take(1) if table.lengths[row] else None
    if new is None:
        return False
    table.give_back(table.table[row][: table.page])
    table.table[row][: table.page] = new
    return True


def leaks(table: RowTable, _row: int) -> bool:
    """A page that was free is nobody's."""
    return table.take(1) is not None


def device_leaks(table: RowTable, _row: int) -> bool:
    """A free slot of the device is nobody's."""
    return bool(table.device) and table.device.pop() >= 0


def device_repeats(table: RowTable, _row: int) -> bool:
    """A free slot of the device is free twice."""
    table.device += table.device[-1:]
    return bool(table.device)


def buffer_gains(table: RowTable, row: int) -> bool:
    """A row's buffer has a slot of the device more, which was free."""
    if not table.places[row] or not table.device:
        return False
    table.places[row].append(table.device.pop())
    return True


def buffer_loses(table: RowTable, row: int) -> bool:
    """A row's buffer has a slot of the device less, which is free."""
    if not table.places[row]:
        return False
    table.device.append(table.places[row].pop())
    return True


def buffer_turned(table: RowTable, row: int) -> bool:
    """The slots of a row's buffer, which holds something, are in another order."""
    if not in_use(table, row):
        return False
    table.places[row].reverse()
    return len(table.places[row]) > 1


def copy_lost(table: RowTable, _row: int) -> bool:
    """A copy of staged tokens has ended, and nobody ended it."""
    if not table.copying:
        return False
    table.copying.remove(max(table.copying))
    return True


def transfer_lost(table: RowTable, _row: int) -> bool:
    """A transfer is under way no more."""
    if not table.transfers:
        return False
    del table.transfers[max(table.transfers)]
    return True


def staged_lost(table: RowTable, _row: int) -> bool:
    """The last that waits to be acknowledged waits no more."""
    return bool(table.staged) and table.staged.pop() is not None


def staged_turned(table: RowTable, _row: int) -> bool:
    """Those that wait to be acknowledged wait in another order."""
    table.staged.reverse()
    return len(table.staged) > 1


def promise(many: int) -> OnRow:
    """More, or nothing, is promised to a row."""

    def change(table: RowTable, row: int) -> bool:
        if not table.promised[row]:
            return False
        table.promised[row] = table.promised[row] + many * table.page if many else 0
        return True

    return change


def use_turned(table: RowTable, row: int) -> bool:
    """The order in which the places of a buffer are used anew is turned round."""
    if not in_use(table, row):
        return False
    table.recent[row].reverse()
    return True


def content_turned(table: RowTable, row: int) -> bool:
    """The tokens of a buffer are in other places."""
    if not in_use(table, row):
        return False
    table.buffered[row].reverse()
    return True


def in_use(table: RowTable, row: int) -> bool:
    """Whether a row decodes, and has something in its buffer: what is left there of a row before it means nothing."""
    waits = row in [*(one.row for one in table.staged), *(one.row for one in table.transfers.values())]
    return bool(table.places[row]) and not waits and any(slot != NO_SLOT for slot in table.buffered[row])


def backed_again(table: RowTable, row: int) -> bool:
    """What the host has of a row is forgotten."""
    had, table.backed[row] = table.backed[row], 0
    return bool(had)


POOL: tuple[tuple[str, OnRow], ...] = (
    ("a free page is lost", leaks),
    ("a free slot of the device is lost", device_leaks),
    ("a free slot of the device is free twice", device_repeats),
    ("a copy has ended, and nobody ended it", copy_lost),
    ("a transfer is under way no more", transfer_lost),
)
"""What is of no row, and shows at once."""

SHOWING: tuple[tuple[str, OnRow], ...] = (
    ("a page more", gains),
    ("a page less, which is free", loses(returned=True)),
    ("a page less, which is lost", loses(returned=False)),
    ("a page that is free, too", doubled),
    ("two slots swapped", swapped),
    ("a page in another place", moved),
    ("a slot of the buffer more", buffer_gains),
    ("a slot of the buffer less", buffer_loses),
    ("the slots of the buffer in another order", buffer_turned),
)
"""What happens to a row, and shows at once."""

PROMISED = "nothing is promised to it"
POOL_LASTING: tuple[tuple[str, OnRow], ...] = (
    ("what waits to be acknowledged is forgotten", staged_lost),
    ("what waits to be acknowledged waits in another order", staged_turned),
)
LASTING: tuple[tuple[str, OnRow], ...] = (
    ("more is promised to it", promise(1)),
    (PROMISED, promise(0)),
    ("the order of use of the buffer is turned round", use_turned),
    ("the tokens of the buffer are in other places", content_turned),
    ("what the host has of it is forgotten", backed_again),
)
"""What shows in what comes later, of no row, and of a row."""


def row_among(*, mine: bool, how: str, change: OnRow, lasting: bool) -> Way:
    """A way, on the row of a call, or on the first other one where it can be done."""

    def do(cache: Any, call: Any, _gone: Gone) -> bool:
        about = getattr(call, "row", None)
        rows = [row for row in range(len(cache.table.lengths)) if (row == about) == mine]
        return any(change(cache.table, row) for row in rows)

    return Way(f"{'its row' if mine else 'another row'}: {how}", do, lasting)


def of_pool(how: str, change: OnRow, *, lasting: bool) -> Way:
    """A way, on what is of no row."""
    return Way(f"the pool: {how}", lambda cache, _call, _gone: change(cache.table, 0), lasting)


WAYS: tuple[Way, ...] = (
    *(of_pool(how, change, lasting=False) for how, change in POOL),
    *(of_pool(how, change, lasting=True) for how, change in POOL_LASTING),
    *(
        row_among(mine=mine, how=how, change=change, lasting=lasting)
        for mine in (True, False)
        for lasting, ways in ((False, SHOWING), (True, LASTING))
        for how, change in ways
    ),
)
"""All ways."""

EXCUSES: tuple[Excuse, ...] = (
    Excuse(
        ("the pool: a copy has ended, and nobody ended it",),
        "a copy may be seen to have ended behind any call: whoever had to wait for it has seen it end",
    ),
    Excuse(
        ("its row: a slot of the buffer less",),
        "a row that waits for its copy or its peer doesn't decode: its buffer gets what it lacks when it begins to",
        (On.SPARSE_STAGE, On.SPARSE_PREALLOC),
    ),
    Excuse(
        ("its row: what the host has of it is forgotten",),
        "a step backs up the group before the newest token, which the host lacks then, whatever else is remembered",
        (On.SPARSE_SWAP, On.SPARSE_BACKUP, On.SPARSE_GROW, On.REFUSED_SPARSE_GROW, On.SPARSE_MISUSE),
    ),
)
"""What no rule notices: legal, or open."""

GROUPS: Mapping[str, str] = {
    "rows": "its row: a page",
    "seen": "the pool: a free page",
    "buffers": "its row: the tokens of the buffer",
    "copies": "the pool: a copy has ended",
    "waiting": "the pool: what waits",
    "backed": "its row: what the host has",
    "reserved": "its row: nothing is promised",
    "transfers": "the pool: a transfer",
    "device": "the pool: a free slot of the device",
    "places": "its row: a slot of the buffer",
    "held": "its row: a slot of the buffer",
}
"""By which ways each part of what is known (:class:`~kvlitmus.spec.sparse.state.SparseState`) is disturbed."""

FIXED = "it is a size or a choice that a pool has from the start; no call has it change"
COUNTED = "it is worked out from the calls that were made"
NOT_DISTURBED: Mapping[str, str] = {
    **dict.fromkeys(("page_size", "pages", "width", "room", "keeps", "ratio", "grows"), FIXED),
    **dict.fromkeys(("begun", "lengths", "sent"), COUNTED),
}
"""The other parts, each with the reason."""
