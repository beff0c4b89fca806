"""The pages of published findings: each counterexample in ``docs/results``, drawn step by step.

    .venv/bin/python tools/drawn.py FOLDER                 writes all pages there
    .venv/bin/python tools/drawn.py --picture FILE.png     makes the picture of README, in a real browser

The site has them (``tools/site.py``): a link to a counterexample leads to its page there.  None is committed.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "conformance")))
sys.path[:0] = [path for path in ROOMS if path not in sys.path]

from kvlitmus.conformance.run.failures import SUFFIX, load, replay_line  # noqa: E402
from kvlitmus.conformance.viewer.beside import shown  # noqa: E402
from kvlitmus.conformance.viewer.page import write  # noqa: E402

FOLDER = ROOT / "docs" / "results" / "counterexamples"

PICTURED = "sglang-0.5.13.post1-hicache/TIER-01-fbfd13c4.jsonl"
"""The finding of the picture."""

WIDTH, HEIGHT = 1160, 640
"""The size of the picture, in pixels."""

COLORS = 48
MOST_BYTES = 60_000


def page_of(path: Path) -> str:
    """The page of a counterexample."""
    failure = load(path)
    stream = io.StringIO()
    line = replay_line(path.relative_to(ROOT))
    write(stream, [shown(failure.header.data, [step.data for step in failure.steps], line)])
    return stream.getvalue()


def name_of(path: str) -> str:
    """The page of a counterexample, by its path below ``docs/``."""
    return f"{path.removesuffix(SUFFIX)}.html"


def found() -> dict[str, Path]:
    """Every counterexample, by the path of its page below ``docs/``."""
    every = sorted(FOLDER.glob(f"*/*{SUFFIX}"))
    return {name_of(path.relative_to(ROOT / "docs").as_posix()): path for path in every}


def pages() -> Iterator[tuple[str, str]]:
    """All pages: the path below ``docs/``, and the text."""
    for name, path in found().items():
        yield name, page_of(path)


def picture(file: Path) -> None:
    """Make the picture; raises ``RuntimeError`` if it is larger than it may be."""
    from PIL import Image  # it comes with matplotlib

    from tests.support.browser import launched

    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        page = Path(folder) / "finding.html"
        page.write_text(page_of(FOLDER / PICTURED), encoding="utf-8")
        opened = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        opened.goto(page.as_uri())
        opened.wait_for_selector("html[data-drawn]", state="attached")
        made = opened.screenshot()
    few = io.BytesIO()
    Image.open(io.BytesIO(made)).convert("RGB").quantize(COLORS).save(few, "PNG", optimize=True)
    if len(few.getvalue()) > MOST_BYTES:
        raise RuntimeError(f"the picture has {len(few.getvalue()):,} bytes, and may have {MOST_BYTES:,}")
    file.write_bytes(few.getvalue())


def main() -> int:
    """Write the pages, or the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--picture", type=Path, metavar="FILE.png")
    args = parser.parse_args()
    if args.picture is not None:
        picture(args.picture)
    if args.folder is not None:
        for name, text in pages():
            (args.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (args.folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
