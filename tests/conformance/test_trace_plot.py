"""The picture of a replay: right, the same each time, and refused in time where it can't be drawn."""

from __future__ import annotations

import builtins
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.trace import command, plot
from benchmarks.trace.plot import CannotPlot, check, draw
from kvlitmus.conformance.run.targets import resolve_target
from tests.conformance.test_trace import SMALL
from tests.conformance.test_trace_command import run

Capture = pytest.CaptureFixture[str]

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is in the extra 'plot'"
)

ROWS: list[dict[str, int]] = [
    {"capacity": 1_000, "hit_blocks": 50, "hit_tokens": 600},
    {"capacity": 10, "hit_blocks": 0, "hit_tokens": 0},
    {"capacity": 100, "hit_blocks": 25, "hit_tokens": 200},
]


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def picture(name: str, rows: list[dict[str, int]] = ROWS, **more: Any) -> bytes:
    draw(name, rows, **{"blocks": 100, "tokens": 1_000, "title": "cache, trace.jsonl, full-leaf", **more})
    return Path(name).read_bytes()


def points(svg: str) -> list[list[tuple[float, float]]]:
    """The markers of each curve, in the order in which they were drawn: where each stands, from below."""
    root = ET.fromstring(svg)
    curves = []
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        if re.fullmatch(r"line2d_\d+", group.get("id", "")):
            uses = list(group.iter("{http://www.w3.org/2000/svg}use"))
            if len(uses) > 1:
                curves.append([(float(use.attrib["x"]), -float(use.attrib["y"])) for use in uses])
    return curves


@needs_matplotlib
def test_the_curves_show_the_figures() -> None:
    """Where the markers stand is held against the figures: across by the logarithm, upwards in proportion."""
    blocks, tokens = points(picture("a.svg").decode())
    for curve, shares in ((blocks, (0, 0.25, 0.5)), (tokens, (0, 0.2, 0.6))):
        (x0, y0), (x1, _), (x2, _) = curve
        assert x1 - x0 == pytest.approx(x2 - x1, rel=1e-4), "equal factors are equal distances"
        heights = [y - y0 for _, y in curve]
        assert heights[2] > 0
        assert [height / heights[2] * shares[2] for height in heights] == pytest.approx(shares, abs=1e-4)
    assert tokens[2][1] - tokens[0][1] == pytest.approx((blocks[2][1] - blocks[0][1]) * 0.6 / 0.5, rel=1e-4)


@needs_matplotlib
def test_it_says_what_it_shows() -> None:
    text = picture("a.svg", title=r"cache $x^2$, <b> & trace").decode()
    seen = "\n".join(ET.fromstring(text).itertext())
    for words in ("capacity, in blocks", "found in the cache", "blocks (of 100)", "tokens (of 1,000)", "1,000", "20%"):
        assert words in seen
    assert "cache $x^2$, <b> & trace" in seen.replace(r"\$", "$"), "a name is text, no formula"


@needs_matplotlib
@pytest.mark.parametrize("suffix", plot.SUFFIXES)
def test_the_same_figures_give_the_same_file(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    first = picture(f"a{suffix}")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 30}):
        assert picture(f"b{suffix}") == first, "whatever the user's own settings are"
    assert picture(f"c{suffix}", [*ROWS[:2], {**ROWS[2], "hit_blocks": 26}]) != first
    assert {".svg": b"<?xml", ".png": b"\x89PNG"}[suffix] == first[:5] or first[:4] == b"\x89PNG"


@needs_matplotlib
@pytest.mark.parametrize("json_too", [False, True])
def test_the_command_draws_what_it_prints(json_too: bool, capsys: Capture) -> None:
    words = [str(SMALL), "--capacity", "60,200", *(["--json"] if json_too else [])]
    assert run(*words) == 0
    plain = capsys.readouterr().out
    assert run(*words, "--plot", "a.svg") == 0
    seen = capsys.readouterr()
    drop = re.compile(r"\d+\.\d$", re.MULTILINE)  # seconds
    assert drop.sub("", seen.out) == drop.sub("", plain)
    assert seen.err.endswith("picture in a.svg\n")
    assert [len(curve) for curve in points(Path("a.svg").read_text())] == [2, 2]
    text = "\n".join(ET.fromstring(Path("a.svg").read_text()).itertext())
    assert f"specimen, {SMALL.name}, full-leaf" in text


@needs_matplotlib
def test_another_python_replays_and_this_one_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a peer needs no matplotlib."""
    monkeypatch.setattr(command, "run_here", None)
    Path("python").symlink_to(sys.executable)

    def elsewhere(name: str) -> Any:
        return resolve_target(name, python=str(Path("python").absolute()))

    monkeypatch.setattr(command, "resolve_target", elsewhere)
    assert run(str(SMALL), "--capacity", "60,200", "--plot", "a.svg") == 0
    assert [len(curve) for curve in points(Path("a.svg").read_text())] == [2, 2]


@needs_matplotlib
def test_nothing_is_drawn_of_a_replay_that_failed(capsys: Capture) -> None:
    assert run(str(SMALL), "--capacity", "1", "--plot", "a.svg") == 2
    assert not Path("a.svg").exists()
    assert "picture" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.pdf", "a", "gone/a.svg", "folder.svg"])
def test_a_picture_that_can_not_be_written_is_refused_before_the_replay(name: str, capsys: Capture) -> None:
    Path("folder.svg").mkdir()
    assert run(str(SMALL), "--plot", name) == 2
    seen = capsys.readouterr()
    assert seen.err.startswith(f"{command.NAME}: --plot {name}: ")
    assert not seen.out


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else real(name))
    assert run(str(SMALL), "--plot", "a.svg") == 2
    assert "pip install 'kvlitmus[plot]'" in capsys.readouterr().err
    with pytest.raises(CannotPlot):
        check("a.svg")


def test_a_replay_without_a_picture_needs_no_matplotlib(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    real = builtins.__import__

    def guarded(name: str, *rest: Any, **more: Any) -> Any:
        assert not name.startswith("matplotlib")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", guarded)
    assert run(str(SMALL), "--capacity", "60", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["capacity"] == 60
