"""``python -m kvlitmus``: the command, where its script isn't on the path."""

import sys

from kvlitmus.conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
