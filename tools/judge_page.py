"""The judge in the reader's browser: what the page ``docs/try.md`` needs beside itself.

The files that are edited are those of the tutorial.  The judge is packed from this checkout; Python is Pyodide, from
the npm registry: ``tools/docs`` puts it into ``.venv/pyodide``.  Without it the page says that it isn't there.
"""

from __future__ import annotations

import html
import io
import re
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "try.md"
PYODIDE = ROOT / ".venv" / "pyodide" / "node_modules" / "pyodide"
PYTHON = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json", "README.md")
"""What Python in the browser is made of."""

PACKED = ("spec/kvlitmus/spec", "reference/kvlitmus/reference", "conformance/kvlitmus/conformance")
SUFFIXES = (".py", ".json", ".html", ".css", ".js", ".jsonl")


def filled(text: str, path: str) -> str:
    """The page with the tutorial's files in it; any other page as it is."""
    if path != PAGE:
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
        found |= {f"assets/judge/{name}": (PYODIDE / name).read_bytes() for name in PYTHON}
    return found
