"""Reports as plain data for tests: a small one in which every verdict occurs, and changes of it."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any

from kvlitmus.conformance.report import document
from kvlitmus.conformance.run.results import ItemResult
from tests.conformance.test_report import evil_result, make_run

VERDICTS = {
    "POOL-01": "passed",
    "POOL-02": "violated",
    "POOL-03": "warned",
    "TREE-01": "not_applicable",
    "TREE-02": "not_exercised",
    "TREE-03": "blocked",
    "LOCK-01": "inconclusive",
    "LOCK-02": "harness_error",
}
"""A rule per verdict."""


@functools.cache
def base() -> Any:
    """The document of a run of one item with one finding."""
    ran = ItemResult(item="litmus:x [page=1 lru]", config="page=1 lru", steps=4, findings=evil_result().findings)
    plain: Any = json.loads(document.dump(document.document(make_run(ran))))
    return plain


def finding(rule: str, calls: int = 2) -> Any:
    """A counterexample of a rule."""
    data = base()["findings"][0]
    plain = {
        "rules": [rule], "call": "free([1])", "calls": ["alloc(1) → [1]"] * (calls - 1) + ["free([1])"],
        "allowed": "nothing of the kind", "seen": {"free_after": "{1}"}, "detail": "", "item": "litmus:x [page=1 lru]",
        "items": ["litmus:x [page=1 lru]"], "items_total": 3, "replay": "kvlitmus replay x.json", "leads": True,
        "cause": {"id": f"{rule[:4].lower().strip('-')}-0000{calls:04}", "about": "free"}, "headline": True,
        "follows": None, "known": False,
    }  # fmt: skip
    return {**data, **plain}


def report(**verdicts: str) -> Any:
    """A report in which these rules (``POOL_01="violated"``) have these verdicts, and no others are in it."""
    wanted = {name.replace("_", "-"): verdict for name, verdict in verdicts.items()} or VERDICTS
    data = copy.deepcopy({**base(), "rules": [], "not_applicable": [], "findings": []})
    for id, verdict in wanted.items():
        broken = verdict in ("violated", "warned")
        reason = f"because of {verdict}" if verdict not in ("passed", "violated", "warned") else ""
        if verdict == "not_applicable":
            data["not_applicable"].append({"reason": reason, "rules": [id]})
            continue
        data["rules"].append(
            {
                "id": id,
                "verdict": verdict,
                "reason": reason,
                "evaluations": 7 if verdict == "passed" else 0,
                "findings": [len(data["findings"])] if broken else [],
            }
        )
        if broken:
            data["findings"].append(finding(id))
    data["stamps"]["target"] = {"name": "cache", "version": "1", "reference": "cache:target"}
    return data


def changed(data: Any, path: str, value: Any) -> Any:
    """A copy with another value at ``rules.0.verdict``; ``...`` takes the field away."""
    made = copy.deepcopy(data)
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    at: Any = made
    for part in way:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return made


def save(data: Any, name: str) -> str:
    """Write a report; returns its name."""
    Path(name).write_text(json.dumps(data))
    return name
