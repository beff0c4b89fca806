"""What tests of the suite share."""

from __future__ import annotations

import pytest

from kvlitmus.conformance.fuzz import job_runner
from kvlitmus.conformance.isolation import supervisor

LOOKED_AT = (
    "test_integrity.py",
    "test_cli.py::test_the_specimen_passes",
    "test_fuzz_campaign.py::test_a_sound_cache_gives_no_finding_and_the_canary_is_found",
    "test_shards.py::test_a_judge_that_was_changed_makes_a_run_worthless",
    "test_supervisor.py::test_who_was_asked_what_it_is_plays_the_first_items",
)
"""Where the judge in a worker is looked at when it has judged, as in every run."""


@pytest.fixture(autouse=True)
def _nobody_looks_at_the_judge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look plays 22 planted faults in each worker: half of what a short run takes, and the same in all of them.

    What is run by the command in a process of its own looks all the same.
    """
    if not any(one in request.node.nodeid for one in LOOKED_AT):
        for module in (supervisor, job_runner):
            monkeypatch.setattr(module, "look", lambda *_: None)
