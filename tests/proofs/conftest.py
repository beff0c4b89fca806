"""What the proofs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.proofs.support.reader import Ask, reader


@pytest.fixture(scope="session")
def crosshair() -> Iterator[Ask]:
    """Whom to ask about lemmas."""
    with reader() as ask:
        yield ask
