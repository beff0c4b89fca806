"""``python -m benchmarks.replay_trace``."""

import sys

from benchmarks.replay_trace import command
from kvlitmus.conformance import cli

if __name__ == "__main__":
    sys.exit(cli.main(run=command.main))
