"""What is claimed about speed, measured side by side; one command each, run in a checkout.

``control.py``    the optimized cache's control plane beside SGLang's caches (``control/``)
``memory.py``     its bookkeeping, grown to ten million pages
``gpu.py``        the optimized cache on a GPU: is it correct, and how fast does it copy (``gpu/``)
``engine.py``     how fast the suite judges and finds bugs, beside a Hypothesis state machine
``hierarchy.py``  how fast hierarchies are judged, beside flat caches
``-m benchmarks.trace``  how much of a recorded workload a cache would have found (``trace/``)

Whatever imports this finds the rooms of this checkout: nothing has to be installed.
"""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_ROOMS = (str(_ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))
sys.path[1:1] = [room for room in _ROOMS if room not in sys.path]
