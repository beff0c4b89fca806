"""What runs produce: items of work, findings, results, verdicts; all of it plain data.

Everything here goes through JSON between processes and into reports, so it consists of strings,
numbers, lists and dictionaries only.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Any

from kvlitmus.conformance.generate.schedule import GENERATION, HIGHEST, MAX_OPS, NEEDS, Op, describe
from kvlitmus.conformance.generate.shrink import SAFETY, TRIALS
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.tape.written import Line

Choice = tuple[tuple[str, bool | int | str], ...]
"""Fields of a profile, each with a value."""

REPORT_FORMAT = 3
"""The version of the report's form; it rises when a reader would have to change."""


class Verdict(enum.Enum):
    """What is said about one rule."""

    PASSED = "passed"
    VIOLATED = "violated"
    WARNED = "warned"
    NOT_APPLICABLE = "not_applicable"
    NOT_EXERCISED = "not_exercised"
    BLOCKED = "blocked"
    INCONCLUSIVE = "inconclusive"
    HARNESS_ERROR = "harness_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A unit of work that one worker does in one go.

    kind: ``litmus`` (``name`` is the test), ``transcript`` (the same test, written down as a schedule), ``random``
    (``seed`` and ``ops`` give the schedule, drawn from the operations of a ``generation``), ``schedule`` (``schedule``
    is given), ``vector`` (likewise; ``name`` is the vector), or ``tape`` (``name`` is a file, whose calls are made).
    declared: values of fields of the profile that are taken for what the target declares.
    """

    kind: str
    config: Config
    name: str = ""
    seed: int = 0
    ops: int = 0
    schedule: tuple[Op, ...] = ()
    generation: int = GENERATION
    declared: Choice = ()

    @property
    def id(self) -> str:
        """A name that is the same in every run of this version."""
        name = PurePath(self.name).name if self.kind == "tape" else self.name
        what = f"seed={self.seed}" if self.kind == "random" else name or "schedule"
        return f"{self.kind}:{what} [{self.config.label}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How items are judged: depth of observation, muted rules, whether misuse is forced, how hard to shrink.

    ``shrink_seconds`` is a net for targets that hang; what decides is ``shrink_trials``.  ``record``: the folder in
    which the steps are recorded, if any.  ``without``: methods that adapters are treated as not having.
    ``taped``: whether a finding is played once more, to be written down step by step; where not, its rules are wanted
    alone.
    """

    depth: int = 3
    muted: frozenset[str] = frozenset()
    force_misuse: bool = False
    reruns: int = 4
    shrink_trials: int = TRIALS
    shrink_seconds: float = SAFETY
    record: str = ""
    without: frozenset[str] = frozenset()
    taped: bool = True


SHORTNESS = {"2-minimal": "nothing is broken any more without any one or two of its calls"}
"""What shrinking came to, where its own name for it says little."""


@dataclass(slots=True, kw_only=True)
class Finding:
    """One counterexample: the rules that a call broke, and everything needed to understand and replay it.

    ``allowed`` and ``seen`` are texts; ``calls`` is the whole sequence, the offending call last.  ``minimal``:
    what shrinking came to (:mod:`~kvlitmus.conformance.generate.shrink`), empty where there is nothing to shrink or it
    ended early; then ``not_minimal`` says why there may be a shorter one.
    ``after``: rules that earlier calls of it broke, and that were muted: it may be a consequence of that.  ``parted``:
    after which earlier call, if any, the cache first wasn't as expected, and in what; no rule need be broken by that.
    ``tape``: how it went, where that is on record: what a header says of the cache, and the steps.
    """

    rules: list[str]
    item: str
    config: Config
    call: str
    calls: list[str]
    allowed: str
    seen: dict[str, str]
    detail: str = ""
    schedule: list[Op] = field(default_factory=list)
    litmus: str = ""
    drawn_steps: int = 0
    steps: int = 0
    minimal: str = ""
    not_minimal: str = ""
    after: list[str] = field(default_factory=list)
    parted: list[str] = field(default_factory=list)
    tape: list[Line] = field(default_factory=list, repr=False)

    @property
    def shortness(self) -> str:
        """How sure it is that there is no shorter one, in words; empty where nobody said."""
        if self.not_minimal:
            return f"not minimal: {self.not_minimal}"
        if not self.minimal:
            return "not shrunk: these are the calls of the litmus test" if self.litmus else ""
        return SHORTNESS.get(self.minimal, self.minimal)


@dataclass(slots=True, kw_only=True)
class ItemResult:
    """What came of one item.

    ``evaluated`` counts evaluations per rule, ``unknown`` how often one was not judged since a fact could not be known,
    ``idle`` how often its premise was not true, ``reached`` calls per kind and outcome.  ``error`` says
    what stopped the item from being judged at all; ``unsupported`` why it was not played: the target declined it, or,
    where it is ``left_out``, says by its ports or its profile that it has nothing of the kind.  ``declined``: what it
    said of its ranks that it hasn't (:data:`~kvlitmus.spec.interface.ranks.ASKS`), or that it can't happen there.
    """

    item: str
    config: str
    steps: int = 0
    evaluated: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    error: str = ""
    unsupported: str = ""
    left_out: bool = False
    capabilities: list[str] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)
    seconds: float = 0.0
    unexercised: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class RuleVerdict:
    """What is said about one rule, and on what grounds."""

    rule: str
    verdict: Verdict
    reason: str = ""
    evaluations: int = 0
    findings: list[int] = field(default_factory=list)


def to_json(value: Any) -> Any:
    """Plain data from the classes of this module."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Op):
        return list(value if value.of >= 0 else value[:-1])
    if isinstance(value, Config | Item | Options | Finding | ItemResult | RuleVerdict):
        return {name: to_json(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [to_json(item) for item in value]
    return value


def profile_from_json(data: Mapping[str, Any]) -> Profile:
    """A profile that went through JSON, where tuples become lists."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return Profile(**fields)


def whole_profile(said: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a profile in JSON, also those that it leaves out since they are as usual."""
    return {**to_json(describe(Profile())), **said}


def config_from_json(data: Any) -> Config:
    """A configuration from plain data; raises ``ValueError`` that names the field."""
    if not isinstance(data, dict):
        raise ValueError(f"a config must be an object (got {type(data).__name__})")
    known = [one.name for one in fields(Config)]
    for name in data:
        if name not in known:
            raise ValueError(f"config has no field {name!r}; it has {', '.join(known)}")
    return Config(**data)


def schedule_from_json(data: Any) -> tuple[Op, ...]:
    """A schedule from plain data; raises ``ValueError`` that names the operation."""
    if not isinstance(data, list) or len(data) > MAX_OPS:
        raise ValueError(f"a schedule must be a list of at most {MAX_OPS:,} operations")
    ops: list[Op] = []
    for at, row in enumerate(data):
        if (
            not isinstance(row, list)
            or len(row) not in (4, 5)
            or type(row[0]) is not str
            or row[0] not in NEEDS
            or not all(type(number) is int and 0 <= number <= HIGHEST for number in row[1:4])
            or not all(type(place) is int and 0 <= place < at for place in row[4:])
        ):
            raise ValueError(
                f"operation {at} must be [kind, a, b, c] with numbers 0..255 and a known kind, or [kind, a, b, c, of], "
                f"where of is the place of an operation before it (got {row!r:.80})"
            )
        ops.append(Op(*row))
    return tuple(ops)


KINDS = ("litmus", "transcript", "random", "schedule", "vector")
"""What an item may be that a tape names."""


def item_as_json(item: Item, config: Config) -> dict[str, Any]:
    """An item as it stands beside the configuration of its cache: what it hasn't is left out."""
    given = {"name": item.name, "seed": item.seed, "ops": item.ops, "schedule": to_json(item.schedule)}
    found: dict[str, Any] = {"kind": item.kind, **{name: value for name, value in given.items() if value}}
    if item.kind == "random":
        found |= {"seed": item.seed, "generation": item.generation}
    return found if item.config == config else {**found, "config": to_json(item.config)}


def choice_from_json(data: Any) -> Choice:
    """A choice from plain data; raises ``ValueError`` for a field or a value that no profile has."""
    try:
        choice = tuple((name, value) for name, value in data)
        Profile(**dict(choice))
    except TypeError as error:
        raise ValueError(
            f"what is declared must be a list of fields of a profile with their values ({error})"
        ) from None
    return choice


def item_from_json(data: Any, config: Config | None = None) -> Item:
    """An item from plain data, by itself or beside a configuration; raises ``ValueError`` that names the field."""
    if not isinstance(data, dict) or data.get("kind") not in (*KINDS, "tape"):
        raise ValueError(f"an item must be an object with a kind among {', '.join(KINDS)} (got {data!r:.80})")
    numbers = {name: data.get(name, default) for name, default in (("seed", 0), ("ops", 0), ("generation", 1))}
    for name, kind in (("name", str), *((one, int) for one in numbers)):
        if type(data.get(name, kind())) is not kind:
            raise ValueError(f"{name} of an item must be {kind.__name__} (got {data[name]!r:.80})")
    return Item(
        kind=data["kind"],
        config=config if config is not None and "config" not in data else config_from_json(data.get("config")),
        name=data.get("name", ""),
        schedule=schedule_from_json(data.get("schedule", [])),
        declared=choice_from_json(data.get("declared", [])),
        **numbers,
    )


def options_from_json(data: dict[str, Any]) -> Options:
    """Options from plain data."""
    return Options(**{**data, **{name: frozenset(data[name]) for name in ("muted", "without")}})


def finding_from_json(data: dict[str, Any]) -> Finding:
    """A finding from plain data."""
    plain = {**data, "config": config_from_json(data["config"])}
    plain["schedule"] = list(schedule_from_json(data["schedule"]))
    return Finding(**plain)


def result_from_json(data: dict[str, Any]) -> ItemResult:
    """A result from plain data."""
    plain = dict(data)
    for name in ("evaluated", "unknown", "idle", "reached"):
        plain[name] = Counter(data.get(name, {}))
    plain["findings"] = [finding_from_json(one) for one in data["findings"]]
    return ItemResult(**plain)
