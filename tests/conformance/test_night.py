"""The long run of correct caches: what it counts, how it goes on, and that it notices an alarm."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.ports import Config
from tests.conformance.test_zoo import Buggy, CountsHeldBlocks
from tools import night

SMALL = ["--only", "slab", "last-freed-first", "--jobs", "1"]


def test_a_night_plays_every_depth_and_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "night.json"
    assert night.main([*SMALL, "--steps", "100", "--json", str(file)]) == 0
    first = night.read(file)
    assert set(first["cells"]) == {
        f"{name} depth {depth}" for name in ("zoo:slab", "null:last-freed-first") for depth in night.DEPTHS
    }
    assert all(cell["steps"] >= 100 and not cell["alarms"] for cell in first["cells"].values())
    assert first["commit"] and first["rules"] and first["steps"] == sum(one["steps"] for one in first["cells"].values())

    assert night.main([*SMALL, "--steps", "100", "--json", str(file)]) == 0
    assert night.read(file)["cells"] == first["cells"], "nothing is played twice"
    more = 1 + max(one["steps"] for one in first["cells"].values())
    assert night.main([*SMALL, "--steps", str(more), "--json", str(file)]) == 0
    assert all(one["schedules"] > first["cells"][name]["schedules"] for name, one in night.read(file)["cells"].items())
    assert "0 alarms" in capsys.readouterr().out


def test_a_night_is_of_one_commit_and_one_set_of_rules(tmp_path: Path) -> None:
    file = tmp_path / "night.json"
    assert night.main([*SMALL, "--steps", "10", "--minutes", "0", "--json", str(file)]) == 4, "not all was played"
    told = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**told, "rules": "other"}), encoding="utf-8")
    with pytest.raises(SystemExit, match="rules other, now"):
        night.main([*SMALL, "--steps", "10", "--json", str(file)])
    assert night.main([*SMALL, "--steps", "10", "--minutes", "0", "--json", str(file), "--fresh"]) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_played_is_kept_when_somebody_interrupts(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "night.json"
    calls: list[int] = []

    def interrupted(*args: Any, **others: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            signal.raise_signal(number)
        return wait(*args, **others)

    monkeypatch.setattr("tools.night.wait", interrupted)
    # What is started in the background has SIGINT ignored by some shells, and the tests may be.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert night.main([*SMALL, "--steps", "1000000", "--json", str(file)]) == 128 + number
    finally:
        signal.signal(signal.SIGINT, before)
    assert sum(one["schedules"] for one in night.read(file)["cells"].values()) == night.CHUNK


def test_an_alarm_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Callable[[str], Any] = lambda _: (Buggy(CountsHeldBlocks), (Config(page_size=4, pages=8),))  # noqa: E731
    monkeypatch.setattr(night, "cache_of", found)
    played = night.play("zoo:block_table", 3, 0)
    assert played.alarms and played.alarms[0]["rules"] == ["POOL-13"]
    assert not night.play("zoo:block_table", 0, 0).alarms
