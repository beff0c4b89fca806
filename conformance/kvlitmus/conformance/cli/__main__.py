"""``python -m kvlitmus.conformance.cli``, for those who call the command so; ``python -m kvlitmus`` is shorter."""

import sys

from kvlitmus.conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
