"""``python benchmarks/control.py``, from anywhere: the command of ``benchmarks/control/``."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.control.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
