#!/usr/bin/env python3
"""What is committed so that a change of it shows in a review: the pins of the rules, and the schema of a tape.

    .venv/bin/python tools/pins.py    writes both, and says which rules are other ones

``spec/kvlitmus/spec/sentences.json`` has a pin of what each sentence says, and one of what all rules together decide.
A reworded rule shows by its line; nothing else depends on it.  The one pin of all logic is the same under every
version of Python.  ``conformance/kvlitmus/conformance/schema/tape.schema.json`` is made of the tape's forms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / room) for room in ("spec", "reference", "conformance")]

from kvlitmus.conformance.tape import schema  # noqa: E402
from kvlitmus.spec.law.fingerprint import digest  # noqa: E402
from kvlitmus.spec.law.rule import RETIRED, Rule  # noqa: E402
from kvlitmus.spec.parts import all_rules  # noqa: E402

FILE = ROOT / "spec" / "kvlitmus" / "spec" / "sentences.json"
SCHEMA = ROOT / "conformance" / "kvlitmus" / "conformance" / "schema" / "tape.schema.json"
LOGIC = "the logic of all rules"


def pins(rules: Mapping[str, Rule]) -> dict[str, str]:
    """The pin of all logic, and that of each sentence."""
    return {LOGIC: digest(" ".join(one.digest for one in rules.values()))} | {
        id: one.sentence for id, one in rules.items()
    }


def text(rules: Mapping[str, Rule]) -> str:
    """The file, a rule a line."""
    return json.dumps(pins(rules), indent=1) + "\n"


def differences(rules: Mapping[str, Rule], pinned: Mapping[str, str], retired: Collection[str]) -> list[str]:
    """What is new, changed or gone since the pins were written."""
    now = pins(rules)
    found = [f"{id} is new" for id in now if id not in pinned]
    found += [f"{id} is worded otherwise" for id in rules if pinned.get(id, now[id]) != now[id]]
    found += [f"{id} is gone" for id in pinned if id not in now and id in retired]
    found += [f"{id} is gone, and RETIRED doesn't say why: ids are never reused" for id in lost(now, pinned, retired)]
    return found + [f"{LOGIC} is another one"] * (pinned.get(LOGIC, now[LOGIC]) != now[LOGIC])


def lost(now: Mapping[str, str], pinned: Mapping[str, str], retired: Collection[str]) -> list[str]:
    """Rules that were pinned and are neither there nor retired."""
    return [id for id in pinned if id not in now and id not in retired]


def main() -> int:
    """Write both anew; 1 where a rule was lost, which no pin can mend."""
    SCHEMA.write_text(schema.text(), encoding="utf-8")
    rules = all_rules()
    pinned = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for one in differences(rules, pinned, RETIRED):
        print(f"{one}: say so under Rules in CHANGELOG.md")
    if lost(pins(rules), pinned, RETIRED):
        return 1
    FILE.write_text(text(rules), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
