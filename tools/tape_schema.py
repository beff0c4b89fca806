"""Writes the JSON Schema of a tape, ``conformance/kvlitmus/conformance/schema/tape.schema.json``.

.venv/bin/python tools/tape_schema.py
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from kvlitmus.conformance.tape import schema

if __name__ == "__main__":
    with resources.as_file(resources.files("kvlitmus.conformance") / "schema" / "tape.schema.json") as path:
        Path(path).write_text(schema.text(), encoding="utf-8")
