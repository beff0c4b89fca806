"""The specimen's hierarchy under random calls, with every invariant that needs no model checked after each."""

from __future__ import annotations

from collections import Counter

import pytest

from kvlitmus.conformance.ports import Config, capabilities_of
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.spec.interface.tiers import TIER_PORTS
from tests.conformance.support.tier_driver import Driver
from tests.support.night import by_turns

SIZES = ((1, False), (4, False), (2, True))
WRITES = ("write_through", "write_through_selective", "write_back")
STORAGE = (("none", "best_effort"), ("attached", "best_effort"), ("attached", "wait_complete"), ("later", "timeout"))


@pytest.mark.parametrize(
    ("storage", "stop", "write"), by_turns([(*storage, write) for storage in STORAGE for write in WRITES], every=2)
)
def test_nothing_is_lost_whatever_happens(storage: str, stop: str, write: str) -> None:
    """Conservation, contents, locks and events hold in any order of calls, copies, answers and faults."""
    seen: Counter[str] = Counter()
    for size, bigram in SIZES:
        for host_pages, pages_worth_it, policy in ((6, 0, "lru"), (14, 2, "lfu")):
            config = Config(
                page_size=size,
                pages=12,
                host_pages=host_pages,
                policy=policy,
                bigram=bigram,
                write=write,
                storage=storage,
                stop=stop,
                threshold=pages_worth_it * size,
                rate_limit=10 * size,
            )
            driver = Driver(target.make(config), config, seed=host_pages)
            driver.run(700)
            seen += driver.seen
    assert seen["began"] > 50 and seen["loaded"] and seen["forgot"]
    assert storage == "none" or (seen["fetch"] and seen["put"] and seen["fetching"])


def test_a_flat_specimen_has_no_port_of_a_hierarchy() -> None:
    """The presence of a method is the capability, so there must be none without a host tier."""
    flat, tiered = capabilities_of(target.make(Config())), capabilities_of(target.make(Config(host_pages=8)))
    assert not flat & TIER_PORTS.keys()
    assert tiered >= TIER_PORTS.keys() | {"inspect", "requests", "locks"}
    assert not hasattr(target.make(Config()), "tiers")
