"""The suite on SGLang 0.5.23's unified cache with host memory behind it: ``TARGET WRITE STEPS [SLIP]``, as JSON.

Judged is the device alone, by the rules and profiles of the targets without host memory: a backup runs from beginning
to end within the insert or the eviction that begins it, and nothing is loaded back.  Run by the interpreter of the
release's environment.
"""

from __future__ import annotations

import json
import sys

from kvlitmus.conformance.adapters.sglang.v0_5_23 import components
from tests.conformance.support.sglang_components import drawn
from tests.conformance.support.sglang_hosted import behind


def main(name: str, write: str, steps: str, slip: str = "") -> dict[str, list[str]]:
    """The rules that litmus tests and drawn schedules break."""
    return drawn(behind(getattr(components, name), write, slip), int(steps))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
