"""Pages of long plays and of large caches: how many bytes a step takes, and how much of a scene is drawn."""

from __future__ import annotations

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.viewer.scenes import MOST_ROWS, MOST_SQUARES, Pool, Row, bounded, table
from tests.conformance.test_viewer import written
from tests.conformance.viewer_plays import LONG, WIDE, long_play


@pytest.mark.parametrize(("config", "steps"), [(LONG, 500), (WIDE, 200)], ids=["usual", "wide"])
def test_a_step_takes_less_than_five_hundred_bytes(config: Config, steps: int) -> None:
    text = written(long_play(steps, config))
    assert len(text.encode()) <= 500 * steps  # so that 10,000 steps are less than 5 MB
    assert f'"steps": {steps}' in text


def test_a_scene_of_large_pools_has_no_more_squares_than_are_drawn_at_once() -> None:
    def pool(name: str, taken: int) -> Pool:
        kinds = ["cached"] * taken + ["free"] * (2_999 - taken) + ["two"]
        return {"name": name, "squares": [(label, kind, "") for label, kind in enumerate(kinds)]}

    few, many, small = bounded([pool("few", 3), pool("many", 2_000), {"name": "small", "squares": [(0, "free", "")]}])
    assert [label for label, _, _ in few["squares"]] == [0, 1, 2, 2_999]
    assert few["name"] == "few, 2,996 of 3,000 are free"
    share = MOST_SQUARES // 3
    assert [label for label, _, _ in many["squares"]] == [*range(share - 1), 2_999], "what is red is drawn"
    assert many["name"] == f"many, 999 of 3,000 are free, {2_001 - share:,} more"
    assert small["squares"] == [(0, "free", "")]
    whole = [{**pool("whole", 3), "squares": pool("", 3)["squares"][:MOST_SQUARES]}]
    assert bounded(whole) == whole  # type: ignore[arg-type]


def test_of_a_long_table_no_more_is_drawn_than_anybody_reads() -> None:
    rows = [Row(str(at), [str(at)]) for at in range(MOST_ROWS + 1_000)]
    found = table("Tree", ["prefix"], rows)["rows"]
    assert [found[:MOST_ROWS], found[MOST_ROWS:]] == [rows[:MOST_ROWS], [Row("more", ["… 1,000 more"])]]
    assert table("Tree", ["prefix"], rows[:MOST_ROWS])["rows"] == rows[:MOST_ROWS]
