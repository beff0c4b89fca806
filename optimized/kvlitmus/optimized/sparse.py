"""Sparse rows: host pages behind rows of single tokens, and a small buffer on the device for each (``docs/sparse.md``).

Under sparse attention the KV of a running request stays on the host, and a step copies to the device the few tokens
that it looks at.  :func:`sparse_rows` makes the rows, pages and buffers of an engine.  They are in the compiled core
alone (``native/sparse.h``): their twin is the reference, with which they are played in lock step.

Each call is one step, which no exception interrupts: it is made, or raises with nothing changed, also where memory is
short.  Who loses an answer, to Ctrl-C say, finds out what is whose: ``pages``, ``does``, ``copying`` and
``transferring`` say it, ``free`` gives a row back and ``reset`` all rows.  Pages that a copy or a peer writes to stay
its own until that ends, over a reset, too.

Refused by ``None`` or ``False`` is what there is too little memory for now; what can never be raises ``ValueError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import cores, inputs
from kvlitmus.optimized.slots import Numbers

if TYPE_CHECKING:
    from kvlitmus.optimized._core import SparseRows


MOST_ROWS = 1 << 24
"""No engine has more."""


@dataclass(frozen=True, kw_only=True)
class SparseConfig:
    """How much there is: ``pages`` of ``page_size`` slots on the host, ``rows`` with room for ``width`` slots each.

    ``room``: how many tokens the buffer of a row has room for; ``device_slots``: how many slots of the device all
    buffers have together, by default enough for all.  ``ratio``: how many tokens of the model are compressed to one.
    """

    page_size: int = 64
    pages: int = 1024
    rows: int = 32
    width: int = 8192
    room: int = 2048
    device_slots: int | None = None
    ratio: int = 1

    def __post_init__(self) -> None:
        for field in ("page_size", "pages", "width", "room", "ratio"):
            inputs.whole(field, getattr(self, field), 1, inputs.MOST_PAGES - 1)
        inputs.whole("rows", self.rows, 1, MOST_ROWS)
        if self.device_slots is not None:
            inputs.whole("device_slots", self.device_slots, 0, inputs.MOST_PAGES - 1)
        if self.width < self.page_size:
            raise ValueError(f"width must have room for a page of {self.page_size} (got {self.width})")


def sparse_rows(config: SparseConfig) -> SparseRows:
    """Empty rows; raises ``ValueError`` where there is no compiled core."""
    why = cores.lacking()
    if why:
        raise ValueError(f"sparse rows need the native core, and there is none: {why}")
    from kvlitmus.optimized import _core

    slots = config.device_slots
    if slots is None:
        slots = min(config.rows * (config.room + config.page_size), inputs.MOST_PAGES - 1)
    shape = (config.page_size, config.pages, config.rows, config.width, config.room, slots, config.ratio)
    return _core.SparseRows(*shape)


def brought(numbers: Numbers) -> NDArray[np.int64]:
    """Tokens that are wanted, as the core takes them."""
    return np.array(inputs.integers("tokens", numbers), np.int64)
