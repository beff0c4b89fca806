"""A picture of a replay: how much was found in the cache, over its capacity.

Drawn with matplotlib, which is in the extra ``plot`` and imported only here.  The same figures give the
same file, byte for byte, with the same version of matplotlib: no date, no random ids.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SUFFIXES = (".svg", ".png")
"""In which forms a picture can be written."""

SIZE = (7.2, 4.5)
"""Inches."""

SETTINGS = {
    "svg.hashsalt": "kvlitmus",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
"""What makes a picture the same everywhere: ids that are hashes of this salt, text as text, fonts that come along."""

METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": "kvlitmus"},
    ".png": {"Software": "kvlitmus"},
}


class CannotPlot(Exception):
    """A picture that can't be drawn; the text says what to do."""


def check(name: str) -> None:
    """Refuse what could not be drawn, before anything is replayed; raises :class:`CannotPlot`."""
    path = Path(name)
    if path.suffix.lower() not in SUFFIXES:
        raise CannotPlot(f"--plot {name}: the name must end in {' or '.join(SUFFIXES)}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise CannotPlot(f"--plot {name}: there is no such folder, or it is one itself")
    if importlib.util.find_spec("matplotlib") is None:
        raise CannotPlot("--plot needs matplotlib, which isn't installed: pip install 'kvlitmus[plot]'")


def draw(name: str, rows: Sequence[Mapping[str, int]], *, blocks: int, tokens: int, title: str) -> None:
    """Write the picture; raises :class:`CannotPlot`.

    ``rows`` are the figures of each capacity, of ``blocks`` blocks and ``tokens`` input tokens in all.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    ordered = sorted(rows, key=lambda row: row["capacity"])
    capacities = [row["capacity"] for row in ordered]
    curves = {
        f"{name} (of {whole:,})": [row[f"hit_{name}"] / max(1, whole) for row in ordered]
        for name, whole in (("blocks", blocks), ("tokens", tokens))
    }
    with mpl.rc_context({**mpl.rcParamsDefault, **SETTINGS}):
        figure = Figure(figsize=SIZE, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for (label, shares), marker in zip(curves.items(), "os", strict=True):
            axes.plot(capacities, shares, marker=marker, label=label)
        axes.set_xscale("log")
        axes.set_xticks(capacities, [f"{number:,}" for number in capacities], rotation=30, ha="right")
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        axes.set_ylim(0, 1.08 * max(1e-3, *(share for shares in curves.values() for share in shares)))
        axes.set_xlabel("capacity, in blocks")
        axes.set_ylabel("found in the cache")
        axes.set_title(title.replace("$", r"\$"), fontsize=10)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(frameon=False)
        path = Path(name)
        try:
            figure.savefig(path, format=path.suffix.lower()[1:], dpi=120, metadata=METADATA[path.suffix.lower()])
        except OSError as error:
            raise CannotPlot(f"--plot {name}: {error.strerror or error}") from None
