"""What the parts of the control plane hand one another: arrays of integers, and the states of pages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[Any]
"""An array of integers."""

PageArray = NDArray[np.int32]
"""Page numbers of one pool."""

FREE, USED, GROUPED, CACHED = 0, 1, 2, 3
"""States of a page in a pool: free; some caller's; given back while a group is open; a tree's."""
