"""What can't be judged of a cache behind a pipe, with the reason that a report gives."""

from __future__ import annotations

from collections.abc import Mapping

PIPED = "piped"
"""The capability by which it is known that a cache is behind a pipe."""

APART: Mapping[str, str] = {
    **dict.fromkeys(("raw", "raw_requests", "raw_prefetching"), "over a pipe go no arrays of the caller's"),
    "store_into": "over a pipe go no buffers of the caller's",
    "store_other": "over a pipe there is one caller at a time",
}
"""Ports that no such cache can have."""

UNSEEN: Mapping[str, str] = {"PORT-04": "over a pipe go copies of what is passed and answered"}
"""Rules that no such cache can break."""
