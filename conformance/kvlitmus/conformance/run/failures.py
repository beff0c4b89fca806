"""Saved failures: one counterexample in a file of its own, so that one line plays it again.

A file is a tape of one play (:mod:`kvlitmus.conformance.tape`).  Its header holds what it takes to play (target,
configuration, depth, the schedule or the name of the litmus test) and what was found; its steps, where the play was
on record, what the cache was asked and answered.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.results import Finding, Item, item_as_json, to_json
from kvlitmus.conformance.run.targets import EXEC
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.lines import Header, Step, TapeError, TapeReader, encoded, headed
from kvlitmus.conformance.tape.written import Line
from kvlitmus.spec.law.rule import in_force

MAX_BYTES = 16 << 20
SUFFIX = ".jsonl"

ABOUT = ("config", "profile", "ports", "methods")
"""What a header says of the cache."""


Fill = Callable[[Line, Sequence[Line]], list[Line]]
"""What adds to the steps of a finding what is known of them: the answers of the reference, for one."""


class FailureError(Exception):
    """A file that is no saved failure; the text names the line and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What it takes to play a counterexample again.

    ``litmus`` is the name of a litmus test, else ``schedule`` is what to play.  Rules other than
    ``rules`` are muted when it is played, because an earlier call may break them first.  ``finding``: what was found;
    ``header`` and ``steps``: all of the tape.
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
    finding: Mapping[str, Any] = field(repr=False)
    header: Header = field(repr=False)
    steps: list[Step] = field(repr=False)

    @property
    def tape(self) -> list[Line]:
        """What was on record of it, as a finding keeps it."""
        about = {name: self.header.data[name] for name in ABOUT if name in self.header.data}
        return [about, *(step.data for step in self.steps)] if self.steps else []


def played_of(litmus: str, schedule: list[Op] | tuple[Op, ...], config: Config) -> Item:
    """What is played, as an item."""
    return Item(kind="litmus" if litmus else "schedule", config=config, name=litmus, schedule=tuple(schedule))


def name_of(header: Mapping[str, Any]) -> str:
    """The name of a failure's file: its first rule, and a digest of what is played."""
    item, rules = header["item"], header["finding"]["rules"]
    litmus = item["name"] if item["kind"] == "litmus" else ""
    played = [header["target"], header["config"], header["depth"], litmus, item.get("schedule", []), rules]
    return f"{rules[0]}-{hashlib.sha256(json.dumps(played, sort_keys=True).encode()).hexdigest()[:8]}{SUFFIX}"


def tape_of(
    finding: Finding, *, target: str, depth: int, force_misuse: bool, version: str, fill: Fill | None = None
) -> tuple[Line, list[Line]]:
    """A finding as a tape: the header, and the steps where they are on record; ``fill`` adds what is known of them."""
    first, *steps = finding.tape or [{}]
    calls = {} if texts_of(steps) == finding.calls else {"calls": finding.calls}
    header = headed(
        {
            **first,
            "kvlitmus": version,
            "target": target,
            "config": to_json(finding.config),
            "depth": depth,
            "force_misuse": force_misuse,
            "item": item_as_json(played_of(finding.litmus, finding.schedule, finding.config), finding.config),
            "finding": to_json(
                {
                    "rules": finding.rules,
                    "item": finding.item,
                    "call": finding.call,
                    **calls,
                    "allowed": finding.allowed,
                    "seen": finding.seen,
                    "detail": finding.detail,
                    "minimal": finding.minimal,
                    "not_minimal": finding.not_minimal,
                    "after": finding.after,
                    "parted": finding.parted,
                }
            ),
        }
    )
    return header, steps if fill is None else fill(header, steps)


def texts_of(steps: Iterable[Line]) -> list[str]:
    """The calls of a play as texts, where its steps have them: a finding doesn't repeat them."""
    return [str(step["text"]) for step in steps if "text" in step]


def save(
    folder: Path,
    finding: Finding,
    *,
    target: str,
    depth: int,
    force_misuse: bool,
    version: str,
    lasting: bool = False,
    fill: Fill | None = None,
) -> Path:
    """Save a finding; returns the path.  The same finding gets the same name; raises ``OSError``.

    lasting: when this returns, it is on disk, whatever happens to the machine.
    """
    header, steps = tape_of(finding, target=target, depth=depth, force_misuse=force_misuse, version=version, fill=fill)
    path = folder / name_of(header)
    files.write(path, b"".join(map(encoded, (header, *steps))), lasting=lasting)
    return path


def replay_line(path: Path, python: str = "", target: str = "") -> str:
    """The one line that plays a saved failure again.

    Which Python or program to start is said there and not in the file: a file that somebody sends must not
    choose what is executed.
    """
    program = f" --target {quoted(target)}" if target.startswith(EXEC) else ""
    return f"kvlitmus replay {quoted(str(path))}{program}" + (f" --python {quoted(python)}" if python else "")


def quoted(word: str) -> str:
    """A word as a shell reads it, without characters that would control the terminal that shows it."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = "".join(
        char if char.isprintable() and char not in "'\\" else "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
        for char in word
    )
    return f"$'{escaped}'"


def raw_of(path: Path, most: int, *, follow: bool) -> bytes:
    """The bytes of a file, with a limit on how many; raises :class:`FailureError`.  follow: it may be a link."""
    try:
        raw = files.read(path, most, follow=follow)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise FailureError(f"{path}: {files.unreadable(error)}") from error
    if len(raw) > most:
        raise FailureError(f"{path}: larger than {most} bytes")
    return raw


def read_json(path: Path, most: int = MAX_BYTES) -> Any:
    """Read JSON with a limit on its size and depth; raises :class:`FailureError`."""
    try:
        return json.loads(raw_of(path, most, follow=True).decode("utf-8"))
    except RecursionError:
        raise FailureError(f"{path}: nested too deeply") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise FailureError(f"{path}: not JSON: {harmless(error)}") from error


def load(path: Path, *, follow: bool = True) -> Failure:
    """Read a saved failure; raises :class:`FailureError`, which names file and line.  follow: it may be a link."""
    header, steps = read(path, MAX_BYTES, follow=follow)
    try:
        return failure_of(header, steps)
    except ValueError as error:
        raise FailureError(f"{path}: {harmless(error)}") from error


def read(path: Path, most: int, *, follow: bool = True) -> tuple[Header, list[Step]]:
    """The play of a tape that has one, with a limit on its size; raises :class:`FailureError`."""
    try:
        with TapeReader(str(path), data=raw_of(path, most, follow=follow)) as reader:
            lines = list(reader)
            reader.check_whole()
    except TapeError as error:
        raise FailureError(str(error)) from error
    steps = [line for line in lines if isinstance(line, Step)]
    if len(steps) < len(lines):
        raise FailureError(f"{path}: it holds {1 + len(lines) - len(steps)} plays, and a finding is one")
    return reader.header, steps


def failure_of(header: Header, steps: list[Step]) -> Failure:
    """The failure of a tape; raises ``ValueError`` that names the field."""
    found, item = header.data.get("finding"), header.item
    if not isinstance(found, dict):
        raise ValueError(f"this is no saved failure: 'finding' must be an object (got {type(found).__name__})")
    for name in ("target", "depth", "force_misuse", "item"):
        if name not in header.data:
            raise ValueError(f"'{name}' is missing")
    assert item is not None
    if item.kind not in ("litmus", "schedule") or (item.kind == "litmus" and (item.schedule or not item.name)):
        raise ValueError("'item' must be a schedule, or a litmus test by its name")
    rules, calls = found.get("rules"), found.get("calls", texts_of(step.data for step in steps))
    if not isinstance(rules, list) or not rules or not all(isinstance(rule, str) and len(rule) < 40 for rule in rules):
        raise ValueError("'rules' of 'finding' must name at least one rule")
    if not isinstance(calls, list) or not all(isinstance(call, str) for call in calls):
        raise ValueError("'calls' of 'finding' must be a list of texts")
    return Failure(
        target=header.target,
        config=header.config,
        depth=header.depth,
        force_misuse=header.force_misuse,
        rules=tuple(dict.fromkeys(in_force(str(rule)) for rule in rules)),
        litmus=item.name if item.kind == "litmus" else "",
        schedule=item.schedule,
        kvlitmus=header.kvlitmus,
        calls=tuple(map(str, calls)),
        finding={**found, "calls": calls},
        header=header,
        steps=steps,
    )
