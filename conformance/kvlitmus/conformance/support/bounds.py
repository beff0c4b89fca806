"""What no answer is: lengths, numbers and kinds of collections beyond which nothing of a stranger's is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Set

UNORDERED = (str, bytes, bytearray, Mapping, Set)
"""What iterates without being a sequence."""

MAX_SLOT = 1 << 48
"""A slot beyond this is nonsense whatever the pool."""

MAX_COUNT = 1 << 20
"""A count beyond this is nonsense in any configuration; up to it, rules may count."""
