"""``python -m benchmarks.trace``."""

import sys

from benchmarks.trace import command
from kvlitmus.conformance import cli

if __name__ == "__main__":
    sys.exit(cli.main(run=command.main))
