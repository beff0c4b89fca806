"""What one process measures; started by ``control.py`` with the interpreter of a release, or its own.

    python -m benchmarks.control.worker WANTED RESULT

WANTED: a JSON file with ``release`` (or null), ``rows``, ``quick``, ``trace`` (a path or null) and
``passes``; RESULT: the JSON file to write, anew after each row.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.control import chats, components, rows
from benchmarks.control.ours import running
from benchmarks.control.rows import QUICK, Peers, Row, Scale
from benchmarks.record import say, versions

QUICK_REQUESTS = 300


def about() -> dict[str, str]:
    """What this process runs on."""
    return {**versions("numpy", "numba", "torch", "sglang"), "core": running()}


def measure(wanted: dict[str, Any], save: Callable[[dict[str, Any]], None], tell: Callable[[str], None]) -> None:
    """Measure all rows; a row that fails is noted as not run, with the reason, and the others go on."""
    peers, scale = Peers(wanted["release"]), QUICK if wanted["quick"] else Scale()
    found: dict[str, Any] = {}
    for name in wanted["rows"]:
        if name in found:
            continue
        tell(name)
        started = time.monotonic()
        try:
            made = ROWS[name](peers, scale) if name in ROWS else special(name, peers, wanted, tell)
        except KeyboardInterrupt:
            raise
        except Exception as error:  # noqa: BLE001 - one row must not take the others with it
            if os.environ.get("KVLITMUS_TRACEBACK"):
                traceback.print_exc()
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
        else:
            for row in made if isinstance(made, list) else [made]:
                if row.id in wanted["rows"]:
                    cells = {
                        variant: {one: asdict(stat) for one, stat in series.items()}
                        for variant, series in row.cells.items()
                    }
                    found[row.id] = {"cells": cells, "facts": row.facts}
        found[name]["seconds"] = round(time.monotonic() - started, 1)
        save({"versions": about(), "rows": found})


ROWS: dict[str, Callable[[Peers, Scale], Row | list[Row]]] = {
    "match-32k": rows.match_one,
    "match-chain": rows.chain,
    "match-kept": rows.chain,
    "lock": rows.chain,
    "comb": partial(chats.chat, make=chats.comb, name="comb"),
    "stripped": partial(chats.chat, make=chats.stripped, name="stripped"),
    "small": chats.small,
    "tiers": chats.with_tiers,
    **{kind: partial(components.with_components, kind=kind) for kind in components.KINDS},
    "evict": rows.evict,
    "free": rows.free,
    "insert": rows.insert,
    "sha": rows.sha,
}
"""What measures which row; the others are in ``special``."""


def special(name: str, peers: Peers, wanted: dict[str, Any], tell: Callable[[str], None]) -> Row:
    """The rows that are no simple calls."""
    row, limit = Row(name), QUICK_REQUESTS if wanted["quick"] else None
    if name == "order":
        from benchmarks.control.order import compare

        row.facts = compare(100 if wanted["quick"] else 1_500)
    elif name == "cold":
        from benchmarks.control.cold import measure

        row.facts = dict(measure(1 if wanted["quick"] else 5))
    elif name == "pair":
        from benchmarks.control import pair

        passes = 1 if wanted["quick"] else 3
        row.facts = dict(pair.measure(peers.release, wanted["trace"], limit, passes, tell))
    elif name == "memory":
        from benchmarks import memory

        row.facts = memory.facts(quick=wanted["quick"])
    elif name == "trace":
        from benchmarks.control.trace import CAPACITIES, replay, requests

        trace = requests(wanted["trace"], limit)
        for capacity in CAPACITIES:
            expected = wanted["expected"].get(str(capacity))
            seen = replay(peers, trace, capacity, wanted["passes"][str(capacity)], tell)
            row.facts[str(capacity)] = {"expected": expected, **seen}
    elif name == "trace-tiers":
        from benchmarks.control.trace import replay_with_tiers, requests

        row.facts["1M on the device, 4M on the host"] = replay_with_tiers(
            peers, requests(wanted["trace"], limit), wanted["passes"]["tiers"], tell
        )
    return row


def main() -> int:
    """Measure what is wanted."""
    wanted = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    result = Path(sys.argv[2])

    def save(found: dict[str, Any]) -> None:
        result.write_text(json.dumps(found), encoding="utf-8")

    def tell(what: str) -> None:
        say(f"  {wanted['release'] or 'alone'}: {what}")

    save({"versions": about(), "rows": {}})
    measure(wanted, save, tell)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
