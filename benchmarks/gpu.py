"""``python benchmarks/gpu.py``, from anywhere: the command of ``benchmarks/gpu/``."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.gpu.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
