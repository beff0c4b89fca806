"""The digests that a report is stamped with, kept beside the byte code: they take seconds to work out.

They are kept like byte code, in ``__pycache__``, and hold as long as no source of kvlitmus has changed by a byte.
Where nothing can be kept, or there is no byte code and none is wanted, they are worked out each time.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kvlitmus.conformance.report.build import build_of, items_of, litmus_digest
from kvlitmus.conformance.run.results import Item
from kvlitmus.conformance.support.files import read, write

LONGEST = 1 << 20
"""Bytes."""

FORM = re.compile("[0-9a-f]{12}")


class Stamps(NamedTuple):
    """What a report says that it was made with: what judges, and what was played."""

    build: str
    items: str


def stamps_of(target_module: str, attribute: str, items: Collection[Item], kinds: frozenset[str]) -> Stamps:
    """The stamps of a run of these items on a target of this module."""
    kept = Kept()
    told = " ".join(sorted(kinds))
    build = kept.digest(f"build {target_module} {attribute} {told}", lambda: build_of(target_module, attribute, kinds))

    def litmus(id: str, kinds: frozenset[str]) -> str:
        return kept.digest(f"litmus {id} {told}", lambda: litmus_digest(id, kinds))

    found = Stamps(build, items_of(items, kinds, litmus))
    kept.save()
    return found


def sources() -> str:
    """A digest of all sources of kvlitmus as they are, in all rooms that are installed."""
    seen = hashlib.blake2b(sys.version.encode(), digest_size=16)
    for root in sys.modules["kvlitmus"].__path__:
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                if name.endswith(".py"):
                    path = Path(folder, name)
                    text = path.read_bytes()
                    seen.update(f"{path.relative_to(root)} {len(text)} ".encode())
                    seen.update(text)
    return seen.hexdigest()


class Kept:
    """Digests that were worked out of the sources as they are now."""

    def __init__(self) -> None:
        self.file: Path | None = None
        self.known: dict[str, str] = {}
        self.new = False
        with suppress(NotImplementedError, OSError):  # there is no byte code, or a source can't be read
            self.file = Path(importlib.util.cache_from_source(__file__)).with_suffix(".json")
            self.sources = sources()
            self.known = self.read()

    def read(self) -> dict[str, str]:
        """What the file holds; nothing, where it is of other sources or damaged."""
        assert self.file is not None
        try:
            found = json.loads(read(self.file, LONGEST))
            if found["sources"] == self.sources and all(map(FORM.fullmatch, found["digests"].values())):
                return dict(found["digests"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            pass
        return {}

    def digest(self, name: str, work_out: Callable[[], str]) -> str:
        """The digest of this name."""
        if name not in self.known:
            self.known[name] = work_out()
            self.new = True
        return self.known[name]

    def save(self) -> None:
        """Keep what was worked out."""
        if self.new and self.file is not None and (self.file.parent.is_dir() or not sys.dont_write_bytecode):
            with suppress(OSError):
                write(self.file, json.dumps({"sources": self.sources, "digests": self.known}))
