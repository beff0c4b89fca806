"""A lane whose driver fails in the middle: nobody waits for ever, and nobody gets pages that a copy still writes."""

from __future__ import annotations

from typing import Any

import pytest

from kvlitmus.optimized.data import driver
from kvlitmus.optimized.data.lane import LaneTicket
from tests.optimized.support import streams
from tests.optimized.test_data_lane import mover_of, numbers


def test_a_small_copy_that_the_caller_submits_fails_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with streams.install():
        mover = mover_of("page_head", load_engine="dma")

        def refuse(*_: Any) -> None:
            raise driver.DriverError("cuMemcpyBatchAsync failed with CUDA error 700", "cuMemcpyBatchAsync", 700)

        with monkeypatch.context() as patch:
            patch.setattr(driver, "copy_batch", refuse)
            ticket = mover.load(numbers(1), numbers(5))
        for ask in (ticket.wait, ticket.done):
            with pytest.raises(RuntimeError, match="could not be submitted"):
                ask()
        assert mover.load(numbers(2), numbers(3)).wait()
        mover.close()


def test_a_copy_whose_end_cannot_be_recorded_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with streams.install():
        mover = mover_of("page_head", backup_engine="dma")
        ticket = mover.backup(numbers(1, 3, 5), numbers(1, 3, 5))
        assert isinstance(ticket, LaneTicket) and ticket.wait()

        class Broken:
            """An event that can't be recorded."""

            def record(self, _: Any) -> None:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")

            def query(self) -> bool:
                return True

            def synchronize(self) -> None:
                """Nothing was recorded."""

        monkeypatch.setattr(ticket, "_event", Broken())
        ticket.record()
        with pytest.raises(RuntimeError, match="could not be submitted"):
            ticket.wait()
        mover.close()
