"""Vectors: findings of campaigns that have become part of the deterministic set.

A vector is a short schedule, a file of its own in this folder.  It says which configuration it is
played in, which rules it leads to, and where it comes from.  Every target that has the configuration
and the ports gets it in every run, beside the litmus tests; unlike those it was found and not written.

``kvlitmus promote`` makes vectors, and refuses what the reference or the specimen does not pass.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlitmus.conformance.generate.schedule import NEEDS, Op
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.failures import SUFFIX, FailureError, read
from kvlitmus.conformance.run.results import Item, item_as_json, to_json
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.lines import Header, encoded, headed
from kvlitmus.spec.law.rule import in_force

FOLDER = Path(__file__).parent
"""Where the vectors of the package are."""

MAX_BYTES = 1 << 18
ORIGIN = ("target", "kvlitmus", "call", "link")


class VectorError(Exception):
    """A file that is no vector; the text names the file and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One vector.

    id: its first rule and a digest of what is played.  rules: what it leads to.  sentence: what it is about.
    origin: the target that it was found on, the version that found it, the call that broke the rules, a link.
    """

    id: str
    rules: tuple[str, ...]
    config: Config
    schedule: tuple[Op, ...]
    sentence: str
    origin: tuple[tuple[str, str], ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        """The capabilities without which it can't be played."""
        return needs_of(self.schedule)


def needs_of(schedule: Iterable[Op]) -> frozenset[str]:
    """The capabilities that a schedule needs."""
    return frozenset(need for op in schedule for need in NEEDS[op.kind])


def sparse(config: Config) -> dict[str, Any]:
    """A configuration without what it leaves as it is: so that fields that come later change no vector."""
    plain, usual = to_json(config), to_json(Config())
    return {name: value for name, value in plain.items() if name in ("page_size", "pages") or value != usual[name]}


def id_of(rules: Iterable[str], config: Config, schedule: Iterable[Op]) -> str:
    """The name of a vector: the same for the same schedule in the same configuration."""
    played = json.dumps([sparse(config), to_json(list(schedule))], separators=(",", ":"), sort_keys=True)
    return f"{next(iter(rules))}-{hashlib.sha256(played.encode()).hexdigest()[:8]}"


def line_of(vector: Vector) -> bytes:
    """A vector as it stands in its file: the header of a play that is to be played."""
    item = Item(kind="vector", config=vector.config, name=vector.id, schedule=vector.schedule)
    about = to_json({"rules": vector.rules, "sentence": vector.sentence, "origin": dict(vector.origin)})
    return encoded(
        headed({"config": sparse(vector.config), "item": item_as_json(item, vector.config), "vector": about})
    )


def load(path: Path) -> Vector:
    """Read a vector; raises :class:`VectorError`."""
    try:
        header, _ = read(path, MAX_BYTES)
        return vector_of(header, path.stem)
    except FailureError as error:
        raise VectorError(str(error)) from error
    except ValueError as error:
        raise VectorError(f"{path}: {harmless(error)}") from error


def vector_of(header: Header, id: str) -> Vector:
    """The vector of a tape; raises ``ValueError`` that names the field."""
    about, item = header.data.get("vector"), header.item
    if not isinstance(about, dict) or item is None or item.kind != "vector":
        raise ValueError("this is no vector: its header has no 'vector', or its 'item' is none")
    for name in ("rules", "sentence", "origin"):
        if name not in about:
            raise ValueError(f"'{name}' of 'vector' is missing")
    rules, sentence, origin = about["rules"], about["sentence"], about["origin"]
    if not isinstance(rules, list) or not rules or not all(isinstance(one, str) and one for one in rules):
        raise ValueError("'rules' must name at least one rule")
    if not isinstance(sentence, str) or not sentence.strip():
        raise ValueError("'sentence' must say what the vector is about")
    if not isinstance(origin, dict) or not all(
        name in ORIGIN and isinstance(text, str) for name, text in origin.items()
    ):
        raise ValueError(f"'origin' must have texts only, of {', '.join(ORIGIN)}")
    if not item.schedule:
        raise ValueError("'schedule' is empty")
    return Vector(
        id=id,
        rules=tuple(dict.fromkeys(in_force(str(rule)) for rule in rules)),
        config=header.config,
        schedule=item.schedule,
        sentence=sentence,
        origin=tuple((name, str(text)) for name, text in origin.items()),
    )


def load_all(folder: Path) -> dict[str, Vector]:
    """The vectors of a folder by id; raises :class:`VectorError` for the first file that is none, or no folder."""
    try:
        paths = files.listed(folder, f"*{SUFFIX}")
    except (OSError, ValueError) as error:
        raise VectorError(f"{folder}: {files.unreadable(error, 'a folder with vectors')}") from None
    return {vector.id: vector for vector in map(load, paths)}


@functools.cache
def all_vectors() -> dict[str, Vector]:
    """The vectors of the package."""
    return load_all(FOLDER)
