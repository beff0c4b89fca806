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
from kvlitmus.conformance.run.failures import FailureError, read_json
from kvlitmus.conformance.run.results import config_from_json, schedule_from_json, to_json
from kvlitmus.conformance.support.text import harmless

FOLDER = Path(__file__).parent
"""Where the vectors of the package are."""

KIND = "kvlitmus vector"
FORMAT = 1
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


def to_plain(vector: Vector) -> dict[str, Any]:
    """A vector as it stands in its file."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "rules": list(vector.rules),
        "sentence": vector.sentence,
        "origin": dict(vector.origin),
        "config": sparse(vector.config),
        "schedule": to_json(list(vector.schedule)),
    }


def load(path: Path) -> Vector:
    """Read a vector; raises :class:`VectorError`."""
    try:
        return parse(read_json(path, MAX_BYTES), path.stem)
    except FailureError as error:
        raise VectorError(str(error)) from error
    except ValueError as error:
        raise VectorError(f"{path}: {harmless(error)}") from error


def parse(plain: Any, id: str) -> Vector:
    """A vector from plain data; raises ``ValueError`` that names the field."""
    if not isinstance(plain, dict) or plain.get("kind") != KIND or plain.get("format") != FORMAT:
        raise ValueError(f"this is no {KIND} of format {FORMAT}")
    for name in ("rules", "sentence", "origin", "config", "schedule"):
        if name not in plain:
            raise ValueError(f"'{name}' is missing")
    rules, sentence, origin = plain["rules"], plain["sentence"], plain["origin"]
    if not isinstance(rules, list) or not rules or not all(isinstance(one, str) and one for one in rules):
        raise ValueError("'rules' must name at least one rule")
    if not isinstance(sentence, str) or not sentence.strip():
        raise ValueError("'sentence' must say what the vector is about")
    if not isinstance(origin, dict) or not all(
        name in ORIGIN and isinstance(text, str) for name, text in origin.items()
    ):
        raise ValueError(f"'origin' must have texts only, of {', '.join(ORIGIN)}")
    schedule = schedule_from_json(plain["schedule"])
    if not schedule:
        raise ValueError("'schedule' is empty")
    return Vector(
        id=id,
        rules=tuple(rules),
        config=config_from_json(plain["config"]),
        schedule=schedule,
        sentence=sentence,
        origin=tuple(origin.items()),
    )


def load_all(folder: Path) -> dict[str, Vector]:
    """The vectors of a folder by id; raises :class:`VectorError` for the first file that is none, or no folder."""
    if not folder.is_dir():
        raise VectorError(f"{folder}: there is no such folder")
    return {vector.id: vector for vector in map(load, sorted(folder.glob("*.json")))}


@functools.cache
def all_vectors() -> dict[str, Vector]:
    """The vectors of the package."""
    return load_all(FOLDER)
