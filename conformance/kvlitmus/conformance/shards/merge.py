"""Merging: one run of many shards, with the report that the run would have had in one go.

What the shards had in common, the head of each file, is a run before anything was played.  Counts are added, and what
has something to tell comes in the order of the plan, so that no verdict depends on who played what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvlitmus.conformance.report import document
from kvlitmus.conformance.run.results import Options, config_from_json, profile_from_json, to_json
from kvlitmus.conformance.shards import folder
from kvlitmus.conformance.shards.folder import Plan, ShardError
from kvlitmus.conformance.shards.shard import Summary
from kvlitmus.conformance.support.version import version
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.spec.parts import all_rules

PLAIN = ("target", "target_name", "target_version", "python", "version", "build", "items")
"""What of a run is a text, and the same in all of its shards."""


def head_of(run: document.Run) -> dict[str, Json]:
    """What all shards of a run have in common, as plain data."""
    return {
        **{name: getattr(run, name) for name in PLAIN},
        "profile": to_json({name: getattr(run.profile, name) for name in run.profile.__dataclass_fields__}),
        "capabilities": sorted(run.capabilities),
        "configs": to_json(run.configs),
        "rules": list(run.rules),
        "options": run.options,
        "unasked": dict(run.unasked),
    }


def run_of(head: Mapping[str, Any], planned: int, date: str) -> document.Run:
    """A run before anything was played; raises :class:`ShardError` for what says none."""
    try:
        plain: dict[str, Any] = {name: str(head[name]) for name in PLAIN}
        if plain["version"] != version():
            raise ShardError(f"played by kvlitmus {plain['version']}, and this is {version()}")
        profile, options = profile_from_json(head["profile"]), dict(head["options"])
        capabilities = frozenset(map(str, head["capabilities"]))
        return document.Run(
            **plain,
            profile=profile,
            capabilities=capabilities,
            configs=tuple(map(config_from_json, head["configs"])),
            rules={id: all_rules()[id] for id in head["rules"]},
            options=options,
            scope=document.scope_of(options, profile, capabilities),
            date=date,
            planned=planned,
            unasked={str(label): str(reason) for label, reason in head["unasked"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ShardError(f"expected what a run of kvlitmus {version()} says of itself: {error!r}") from None


def options_of(run: document.Run) -> Options:
    """How the items of a run are judged."""
    muted = frozenset(all_rules().keys() - run.rules.keys())
    return Options(depth=run.scope.depth, muted=muted, force_misuse=run.scope.force_misuse)


def summed(plan: Plan, shards: Iterable[Path]) -> Summary:
    """All that shards brought, in the files of one run; raises :class:`ShardError`."""
    whole = Summary()
    for path in shards:
        include(whole, plan, *folder.read(path))
    return whole


def include(whole: Summary, plan: Plan, part: range, found: Summary) -> None:
    """Take what a part brought, each of its items by its place in the plan."""
    whole.include(found, lambda at: plan.place(part[at]))


def fill(run: document.Run, whole: Summary) -> None:
    """Give a run what was played of it; what wasn't makes it a partial one."""
    run.results = [*whole.sums.values(), *(whole.results[at] for at in sorted(whole.results))]
    run.added = {label: many - 1 for label, many in whole.many.items()}
    run.scope = replace(run.scope, changed=whole.changed, partial=whole.items < run.planned)
