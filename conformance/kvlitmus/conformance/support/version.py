"""The version of kvlitmus that is running."""

from __future__ import annotations


def version() -> str:
    """The version of kvlitmus; ``0+unknown`` in a tree that isn't installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("kvlitmus")
    except PackageNotFoundError:
        return "0+unknown"
