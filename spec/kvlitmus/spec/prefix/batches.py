"""Streams: events as an engine publishes them, in batches that are numbered.

Nobody is asked and nobody answers: a batch is what somebody received who listens to one publisher.  A batch that is
received twice is one batch, for publishers send again what was missed.
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.spec.law.occasions import occasion
from kvlitmus.spec.law.on import On


@occasion(On.BATCH)
class Batch(NamedTuple):
    """A batch was received; ``number``: that of the publisher, if it has one; ``taken``: whether another batch had it."""

    number: int | None = None
    taken: bool = False
