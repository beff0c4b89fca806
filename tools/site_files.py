"""What the site has beside its written pages: findings that are drawn, and the judge in the reader's browser.

    .venv/bin/python tools/site_files.py FOLDER                 writes the pages of all findings there
    .venv/bin/python tools/site_files.py --picture FILE.png     makes the picture of README, in a real browser

Each counterexample in ``docs/results`` is drawn step by step; on the site (``tools/site.py``) a link to it leads to its
page.  None is committed.

``docs/try.md`` has the judge in the browser.  The files that are edited there are those of the tutorial.  The judge is
packed from this checkout; Python is Pyodide, from the npm registry: ``tools/docs`` puts it into ``.venv/pyodide``.
Without it the page says that it isn't there.
"""

from __future__ import annotations

import argparse
import html
import io
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "conformance")))
sys.path[:0] = [path for path in ROOMS if path not in sys.path]

from kvlitmus.conformance.run.failures import SUFFIX, load, replay_line  # noqa: E402
from kvlitmus.conformance.viewer.beside import shown  # noqa: E402
from kvlitmus.conformance.viewer.page import write  # noqa: E402

FOLDER = ROOT / "docs" / "results" / "counterexamples"

PICTURED = "sglang-0.5.13.post1-hicache/POOL-12-8c78656a.jsonl"
"""The finding of the picture."""

WIDTH, HEIGHT = 1160, 860
"""The size of the picture, in pixels."""

COLORS = 48
MOST_BYTES = 60_000


TRY = "try.md"
PYODIDE = ROOT / ".venv" / "pyodide" / "node_modules" / "pyodide"
PYTHON = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json", "README.md")
"""What Python in the browser is made of."""

PACKED = ("spec/kvlitmus/spec", "reference/kvlitmus/reference", "conformance/kvlitmus/conformance")
SUFFIXES = (".py", ".json", ".html", ".css", ".js", ".jsonl")


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


def filled(text: str, path: str) -> str:
    """The page with the tutorial's files in it; any other page as it is."""
    if path != TRY:
        return text
    for name, code in edited().items():
        text = text.replace(f"{{{name}}}", html.escape(code).replace("\n", "&#10;"))
    return text


def edited() -> dict[str, str]:
    """The tutorial's files, as they stand there at first."""
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    return dict(re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', tutorial, re.MULTILINE | re.DOTALL))


def packed() -> bytes:
    """The judge as a zip file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as pack:
        for folder in PACKED:
            room = (ROOT / folder).parent.parent
            for path in sorted((ROOT / folder).rglob("*")):
                if path.suffix in SUFFIXES:
                    pack.write(path, path.relative_to(room))
    return stream.getvalue()


def assets() -> dict[str, bytes]:
    """What lies beside the page, by its path on the site; Python only where it was fetched."""
    found = {"assets/judge/kvlitmus.zip": packed()}
    if PYODIDE.is_dir():
        # As Markdown its README were a page of the site, with a picture that is fetched from elsewhere.
        found |= {f"assets/judge/{name.replace('.md', '.txt')}": (PYODIDE / name).read_bytes() for name in PYTHON}
    return found


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
