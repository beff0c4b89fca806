"""Saved failures: one counterexample in a file of its own, so that one line plays it again.

A file holds what it takes to play (target, configuration, depth, the schedule or the name of the
litmus test, the rules that were broken) and, for a reader, what was seen.  It is JSON, read with a
limit on its size and a check of every field.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.results import Finding, config_from_json, schedule_from_json, to_json
from kvlitmus.conformance.support import files

FORMAT = 1
MAX_BYTES = 16 << 20


class FailureError(Exception):
    """A file that is no saved failure; the text names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What it takes to play a counterexample again.

    ``litmus`` is the name of a litmus test, else ``schedule`` is what to play.  Rules other than
    ``rules`` are muted when it is played, because an earlier call may break them first.
    """

    target: str
    config: Config
    depth: int
    force_misuse: bool
    rules: tuple[str, ...]
    litmus: str
    schedule: tuple[Op, ...]
    kvlitmus: str
    calls: tuple[str, ...]


def name_of(data: dict[str, Any]) -> str:
    """The name of a failure's file: its first rule, and a digest of what is played."""
    body = json.dumps(
        [data[name] for name in ("target", "config", "depth", "litmus", "schedule", "rules")], sort_keys=True
    )
    return f"{data['rules'][0]}-{hashlib.sha256(body.encode()).hexdigest()[:8]}.json"


def save(
    folder: Path,
    finding: Finding,
    *,
    target: str,
    depth: int,
    force_misuse: bool,
    version: str,
    lasting: bool = False,
) -> Path:
    """Save a finding; returns the path.  The same finding gets the same name; raises ``OSError``.

    lasting: when this returns, it is on disk, whatever happens to the machine.
    """
    data = {
        "format": FORMAT,
        "kind": "kvlitmus failure",
        "kvlitmus": version,
        "target": target,
        "config": to_json(finding.config),
        "depth": depth,
        "force_misuse": force_misuse,
        "rules": finding.rules,
        "litmus": finding.litmus,
        "schedule": to_json(finding.schedule),
        "call": finding.call,
        "calls": finding.calls,
        "allowed": finding.allowed,
        "seen": finding.seen,
        "detail": finding.detail,
        "item": finding.item,
        "minimal": finding.minimal,
        "not_minimal": finding.not_minimal,
        "after": finding.after,
        "parted": finding.parted,
    }
    path = folder / name_of(data)
    files.write(path, json.dumps(data, indent=1, ensure_ascii=True) + "\n", lasting=lasting)
    return path


def replay_line(path: Path, python: str = "") -> str:
    """The one line that plays a saved failure again.

    Which Python to start is said there and not in the file: a file that somebody sends must not
    choose what is executed.
    """
    return f"kvlitmus replay {quoted(str(path))}" + (f" --python {quoted(python)}" if python else "")


def quoted(word: str) -> str:
    """A word as a shell reads it, without characters that would control the terminal that shows it."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = "".join(
        char if char.isprintable() and char not in "'\\" else "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
        for char in word
    )
    return f"$'{escaped}'"


def read_json(path: Path, most: int = MAX_BYTES, *, follow: bool = True) -> Any:
    """Read JSON with a limit on its size and depth; raises :class:`FailureError`.  follow: it may be a link."""
    try:
        raw = files.read(path, most, follow=follow)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise FailureError(f"{path}: {(isinstance(error, OSError) and error.strerror) or error}") from error
    if len(raw) > most:
        raise FailureError(f"{path}: larger than {most} bytes")
    try:
        return json.loads(raw.decode("utf-8"))
    except RecursionError:
        raise FailureError(f"{path}: nested too deeply") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise FailureError(f"{path}: not JSON: {harmless(error)}") from error


KINDS: dict[str, type | tuple[type, ...]] = {
    "kvlitmus": str,
    "target": str,
    "config": dict,
    "depth": int,
    "force_misuse": bool,
    "rules": list,
    "litmus": str,
    "schedule": list,
}


def load(path: Path) -> Failure:
    """Read a saved failure; raises :class:`FailureError`, which names the file and the field."""
    data = read_json(path)
    try:
        return parse(data)
    except ValueError as error:
        raise FailureError(f"{path}: {harmless(error)}") from error


def parse(data: Any) -> Failure:
    """A failure from plain data; raises ``ValueError`` that names the field."""
    if not isinstance(data, dict) or data.get("kind") != "kvlitmus failure":
        raise ValueError("this is no saved failure: 'kind' must be 'kvlitmus failure'")
    if type(data.get("format")) is not int or data["format"] != FORMAT:
        raise ValueError(f"'format' must be {FORMAT} (got {data.get('format')!r:.40}); it was saved by another version")
    for name, kind in KINDS.items():
        if name not in data:
            raise ValueError(f"'{name}' is missing")
        if not isinstance(data[name], kind) or (kind is int and isinstance(data[name], bool)):
            raise ValueError(f"'{name}' must be {getattr(kind, '__name__', kind)} (got {type(data[name]).__name__})")
    if not 0 <= data["depth"] <= 3:
        raise ValueError(f"'depth' must be 0 to 3 (got {data['depth']})")
    if not data["rules"] or not all(isinstance(rule, str) and len(rule) < 40 for rule in data["rules"]):
        raise ValueError("'rules' must name at least one rule")
    if data["litmus"] and data["schedule"]:
        raise ValueError("'litmus' and 'schedule' must not both be given")
    calls = data.get("calls", [])
    if not isinstance(calls, list) or not all(isinstance(call, str) for call in calls):
        raise ValueError("'calls' must be a list of texts")
    return Failure(
        target=data["target"],
        config=config_from_json(data["config"]),
        depth=data["depth"],
        force_misuse=data["force_misuse"],
        rules=tuple(data["rules"]),
        litmus=data["litmus"],
        schedule=schedule_from_json(data["schedule"]),
        kvlitmus=data["kvlitmus"],
        calls=tuple(calls),
    )
