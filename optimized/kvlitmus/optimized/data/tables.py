"""The page tables of one copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class Tables:
    """The page tables of one copy.

    source, target: page numbers on the host.  addresses: of both as int32 on the device, for kernels.  keep:
    what the addresses point to.
    """

    source: npt.NDArray[np.integer[Any]]
    target: npt.NDArray[np.integer[Any]]
    addresses: tuple[int, int] = (0, 0)
    keep: Any = None

    def __len__(self) -> int:
        return len(self.source)
