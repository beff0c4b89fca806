"""What a target declares of itself is a name that there is, and what its adapter lacks is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlitmus.conformance.cli import main
from tests.support.night import by_turns

Capture = pytest.CaptureFixture[str]

HALF = "class Half:\n" + "".join(
    f"    def component_{name}(self, *given): return None\n"
    for name in ("match", "reset", "alloc", "free", "insert", "lock", "unlock")
)
LAYERS = "capabilities = ('component_lookup', 'components')"


def smoked(declared: str, made: str = "raise Unsupported('not here')") -> int:
    """Smoke a target that declares this, and makes that; its exit status."""
    Path("declares.py").write_text(
        "from kvlitmus.conformance.ports import Config, Profile, Unsupported\nprofile = Profile()\n"
        f"{declared}\n{HALF}\ndef make(config):\n    {made}\n"
    )
    return main(["smoke", "declares.py", "--color", "never"])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("declared", "said"),
    by_turns(
        [
            (
                "capabilities = ('component_lookup', 'component')",
                "a target has no port 'component' (capabilities); did you mean 'components'",
            ),
            (
                "capabilities = 'components'",
                "a target's capabilities must be a tuple of names, got the text 'components'",
            ),
            (
                f"{LAYERS}; pools = ('component_hosts',)",
                "a target has no pool 'component_hosts' (pools); did you mean 'component_host'",
            ),
            (f"{LAYERS}; pools = 'component_host'", "a target's pools must be a tuple of names"),
            (
                "pools = ('tier',); configs = (Config(page_size=4),)",
                "a target has no pool 'tier' (pools); did you mean",
            ),
            ("configs = [{'page_size': 4}]", "a target's configs must be Config objects, got {'page_size': 4}"),
            ("configs = [Config(page_size=4)] * 101", "a target's configs must be at most 100 Config objects, got 101"),
        ],
        every=2,
    ),
)
def test_what_a_target_misspells_is_3_and_says_what_was_meant(declared: str, said: str, capsys: Capture) -> None:
    assert smoked(declared) == 3
    assert said in capsys.readouterr().err


def test_a_smoke_without_a_step_is_not_all_well(capsys: Capture) -> None:
    assert smoked("") == 4
    assert "declines every configuration" in capsys.readouterr().out


def test_of_a_port_the_methods_are_named_that_an_adapter_lacks(capsys: Capture) -> None:
    assert smoked(LAYERS, "return Half()") == 3
    assert "lacks methods: components (component_evict);" in capsys.readouterr().err.replace("\n", ";")
