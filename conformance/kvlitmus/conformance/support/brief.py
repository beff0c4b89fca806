"""Sequences, told briefly: runs of numbers that go up by one, and runs of equal ones."""

from __future__ import annotations

import re

LEAST = 4
"""Shorter runs are left as they are."""

NUMBERS = re.compile(r"\d+(?:, \d+){3,}")


def brief(text: str) -> str:
    """A text in which ``4, 5, 6, 7`` reads ``4…7`` and ``1, 1, 1, 1`` reads ``1 ×4``."""
    return NUMBERS.sub(lambda found: ", ".join(runs([int(word) for word in found.group().split(", ")])), text)


def runs(numbers: list[int]) -> list[str]:
    """The runs of a sequence, as texts."""
    parts: list[str] = []
    at = 0
    while at < len(numbers):
        for step in (1, 0):
            end = at + 1
            while end < len(numbers) and numbers[end] == numbers[end - 1] + step:
                end += 1
            if end - at >= LEAST:
                first, last = numbers[at], numbers[end - 1]
                parts.append(f"{first}…{last}" if step else f"{first} ×{end - at}")
                break
        else:
            end = at + 1
            parts.append(str(numbers[at]))
        at = end
    return parts
