"""``python -m benchmarks.control``."""

import sys

from benchmarks.control.command import main

if __name__ == "__main__":
    sys.exit(main())
