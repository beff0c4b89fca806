"""The pages that a call needs which makes room for itself."""

from __future__ import annotations

import pytest

from kvlitmus.spec.interface.cache import Begun
from kvlitmus.spec.prefix.calls import Begin, path_of
from kvlitmus.spec.prefix.memory_needed import wanted_pages
from kvlitmus.spec.words.units import Key
from tests.spec.support.boundaries import CACHED, NAMES, setting

PARTS = path_of(NAMES, Key(None, (0, 1, 2, 3, 9, 9, 9, 9)), 4)
"""Two pages, the first of which is cached, as the first of a node of two."""


@pytest.mark.parametrize(("ends", "refused"), [("page", 1), ("node", 2)])
def test_a_request_that_was_refused_would_have_found_whole_nodes_by_node_alone(ends: str, refused: int) -> None:
    of = setting(profile={"match_ends": ends})

    assert wanted_pages(CACHED, of, Begin(0, PARTS), None) == refused
    assert wanted_pages(CACHED, of, Begin(0, PARTS), Begun(range(8), 4)) == 1
