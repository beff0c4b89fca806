"""The page sizes for which formulas about rows and buffers are refuted or not, one after the other."""

from __future__ import annotations

import pytest

LARGEST = 128
BY_DAY = (*range(1, 17), 32, 64, LARGEST)
AT_NIGHT = tuple(size for size in range(1, LARGEST + 1) if size not in BY_DAY)

every_page_size = pytest.mark.parametrize(
    "sizes", [BY_DAY, pytest.param(AT_NIGHT, marks=pytest.mark.nightly)], ids=["by day", "at night"]
)
"""Each test that takes ``sizes`` sees all of them: those that caches have by day, the others at night."""
