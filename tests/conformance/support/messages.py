"""What a process at the other end of a pipe is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kvlitmus.conformance.isolation.remote.process import Line


def sent(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The messages that processes are sent from now on, as they go."""
    told: list[Mapping[str, Any]] = []
    ask = Line.ask

    def heard(line: Line, message: Mapping[str, Any]) -> dict[str, Any]:
        told.append(message)
        return ask(line, message)

    monkeypatch.setattr(Line, "ask", heard)
    return told
