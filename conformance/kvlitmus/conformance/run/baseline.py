"""Baselines: causes of violations that are known, each with a reason and a link, so that only news fail.

A TOML file with a list of entries::

    [[known]]
    rule = "TREE-02"
    cause = "tree-1a2b3c4d"  # as 'kvlitmus run' says it; --write-baseline writes it down
    reason = "matches are rounded down twice; fixed upstream, not released yet"
    link = "https://example.org/issues/1"
    until = "0.3.0"          # optional: from this version of kvlitmus on the entry has expired

A rule that is retired by now stands for the one that says the same.  Another cause that breaks the same rule is news.
An entry whose cause was not met, though its rule was judged, is
**stale**, one whose ``until`` has come is **expired**; both fail, so that a baseline never hides more than it says.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.run.cause import ID
from kvlitmus.conformance.run.minimise import Short
from kvlitmus.conformance.run.results import RuleVerdict, Verdict
from kvlitmus.conformance.run.verdicts import Group, accepted_of, keys_of, main_rule
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import closest
from kvlitmus.spec.law.rule import in_force

MAX_BYTES = 1 << 20
MAX_ENTRIES = 1_000
MAX_PARTS = 32
LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MAX_PARTS}}}""")
"""The parser takes time that grows with the square of a key's parts, and no key here has more than one."""

DECIDED = frozenset({Verdict.VIOLATED, Verdict.WARNED, Verdict.PASSED, Verdict.NOT_APPLICABLE})
"""Verdicts by which a cause that was not met is gone."""

WANTED = "expected one such as \"tree-1a2b3c4d\"; 'kvlitmus run --write-baseline FILE' writes the entries of a run"
"""What to say of an entry without its cause."""

FIELDS = ("rule", "cause", "reason", "link", "until")


class BaselineError(Exception):
    """A baseline that can't be used; the text names the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One known cause, and the rule that it breaks."""

    rule: str
    cause: str
    reason: str
    link: str
    until: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What it knows: a rule by a cause."""
        return self.rule, self.cause


@dataclass(slots=True, kw_only=True)
class BaselineMatch:
    """What a baseline says about a run: which violations are known, which entries must go.

    ``told``: the rules whose violation does not fail the run, since all that breaks them is known, each with an entry
    that tells of that.
    """

    known: list[Entry] = field(default_factory=list)
    stale: list[Entry] = field(default_factory=list)
    expired: list[Entry] = field(default_factory=list)
    told: dict[str, Entry] = field(default_factory=dict)

    @property
    def accepted(self) -> frozenset[str]:
        """The rules whose violation does not fail the run."""
        return frozenset(self.told)

    @property
    def keys(self) -> frozenset[tuple[str, str]]:
        """What was met and is known: rules, each with a cause."""
        return frozenset(entry.key for entry in self.known)

    @property
    def fails(self) -> bool:
        """Whether the baseline itself is a failure."""
        return bool(self.stale or self.expired)


def version_parts(text: str) -> tuple[int, ...]:
    """The numbers of a version, for comparing: ``0.10.1`` → (0, 10, 1); raises ``ValueError`` for anything else."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9}){0,3}", text):
        raise ValueError(text)
    numbers = [int(part) for part in text.split(".")]
    return tuple(numbers + [0] * (4 - len(numbers)))


def load(path: Path, rules: Iterable[str]) -> tuple[Entry, ...]:
    """Read a baseline; raises :class:`BaselineError`, which names the file and the entry."""
    try:
        raw = files.read(path, MAX_BYTES, follow=True)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise BaselineError(f"baseline {path}: {files.unreadable(error)}") from error
    if len(raw) > MAX_BYTES:
        raise BaselineError(f"baseline {path}: larger than {MAX_BYTES} bytes")
    try:
        text = raw.decode("utf-8")
        if LONG_KEY.search(text):
            raise BaselineError(f"baseline {path}: a key of more than {MAX_PARTS} parts")
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # what is no text, no TOML, or a number of thousands of digits
        raise BaselineError(f"baseline {path}: not TOML: {harmless(error)}") from error
    return parse(data, rules, str(path))


def parse(data: Mapping[str, Any], rules: Iterable[str], where: str = "") -> tuple[Entry, ...]:
    """The entries of a baseline that was read."""
    where = f"baseline {where}".rstrip()
    strange = [name for name in data if name != "known"]
    if strange:
        raise BaselineError(f"{where}: expected [[known]] entries only (got {harmless(strange[0])!r})")
    rows = data.get("known", [])
    if not isinstance(rows, list) or len(rows) > MAX_ENTRIES:
        raise BaselineError(f"{where}: 'known' must be a list of at most {MAX_ENTRIES} entries, each headed [[known]]")
    known = list(rules)
    entries: list[Entry] = []
    for number, row in enumerate(rows, 1):
        entry = _entry(row, f"{where}: entry {number}", known)
        if any(entry.key == other.key for other in entries):
            raise BaselineError(f"{where}: entry {number} ({entry.rule}): {entry.cause} is listed twice for this rule")
        entries.append(entry)
    return tuple(entries)


def _entry(row: Any, where: str, rules: Sequence[str]) -> Entry:
    if not isinstance(row, dict):
        raise BaselineError(f"{where}: expected a table (got {type(row).__name__})")
    rule = row.get("rule")
    if isinstance(rule, str) and rule:
        where = f"{where} ({harmless(rule, 40)})"
    for name in FIELDS[:4]:
        if name not in row:
            if name == "cause":
                raise BaselineError(f"{where}: 'cause' is missing: {WANTED}")
            raise BaselineError(f"{where}: '{name}' is missing")
    for name, value in row.items():
        if name not in FIELDS:
            raise BaselineError(f"{where}: unknown field {harmless(name, 40)!r}; an entry has {', '.join(FIELDS)}")
        if not isinstance(value, str) or not value.strip():
            raise BaselineError(f"{where}: '{name}' must be a text that says something")
    if in_force(str(rule)) not in rules:
        raise BaselineError(f"{where}: there is no such rule{closest(str(rule), rules)}")
    if not ID.fullmatch(row["cause"]):
        raise BaselineError(f"{where}: 'cause' is {harmless(row['cause'], 40)!r}: {WANTED}")
    if not row["link"].startswith(("https://", "http://")):
        raise BaselineError(f"{where}: 'link' must begin with https:// or http://")
    try:
        version_parts(row.get("until", "0"))
    except ValueError:
        raise BaselineError(
            f"{where}: 'until' must be a version such as 0.3.0 (got {harmless(row['until'], 40)!r})"
        ) from None
    return Entry(**{"until": "", **{name: value.strip() for name, value in row.items()}})


def compare(
    entries: Sequence[Entry],
    verdicts: Sequence[RuleVerdict],
    groups: Sequence[Group],
    version: str,
    *,
    partial: bool = False,
) -> BaselineMatch:
    """Hold a baseline against a run.

    A rule that was not part of the run, or that could not be decided (blocked, inconclusive, not
    exercised, failed), says nothing about its entry; nor does an interrupted run.
    """
    outcome = BaselineMatch()
    said = {one.rule: one.verdict for one in verdicts}
    met = {key for one in groups for key in keys_of(one.finding)}
    for entry in entries:
        verdict = said.get(in_force(entry.rule))
        if verdict is None:
            continue
        if is_expired(entry, version):
            outcome.expired.append(entry)
        elif entry.key in met:
            outcome.known.append(entry)
        elif verdict in DECIDED and not partial:
            outcome.stale.append(entry)
    accepted = accepted_of([Short(one.finding, one.leads) for one in groups], outcome.keys)
    news = {rule for one, is_known in zip(groups, accepted, strict=True) if not is_known for rule in one.finding.rules}
    entries_by = {entry.key: entry for entry in outcome.known}
    for one in groups:
        told = next((entries_by[key] for key in sorted(keys_of(one.finding) & entries_by.keys())), None)
        for rule in one.finding.rules:
            if rule not in news:
                outcome.told[rule] = told or outcome.told.get(rule, outcome.known[0])
    return outcome


def is_expired(entry: Entry, version: str) -> bool:
    """Whether an entry has ended with this version."""
    release = re.match(r"\d+(\.\d+){0,3}", version)
    return bool(entry.until) and (version_parts(release.group()) if release else (0,)) >= version_parts(entry.until)


def text_of(groups: Sequence[Group], kept: Sequence[Entry]) -> str:
    """A baseline that knows these causes beside those that are kept; what nobody can write but you is left empty."""
    lines = ["# Known violations. Every entry needs a reason, and a link to where it is told."]
    for entry in kept:
        lines += ["", "[[known]]", *(f"{name} = {json.dumps(getattr(entry, name))}" for name in FIELDS[:4])]
        lines += [f"until = {json.dumps(entry.until)}"] if entry.until else []
    listed = {entry.key for entry in kept}
    for one in groups:
        if listed.isdisjoint(keys_of(one.finding)):
            rule = main_rule(one.finding.rules)
            listed.add((rule, one.cause.id))
            lines += ["", f"# {one.cause.about}", "[[known]]", f'rule = "{rule}"']
            lines += [f'cause = "{one.cause.id}"', 'reason = ""', 'link = ""']
    return "\n".join(lines) + "\n"
