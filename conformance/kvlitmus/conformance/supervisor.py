"""The supervisor: spreads items of work over worker processes, and outlives what happens in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.results import Item, ItemResult, Options
from kvlitmus.conformance.targets import TargetError, TargetRef

__all__ = ["Event", "Limits", "TargetError", "TargetInfo", "probe", "run_items"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on time, memory and deaths.

    call_seconds: how long one port call (or making one cache) may take.  start_seconds: how long
    starting a worker and importing the target may take.  memory_mb: address space of one worker,
    ``None`` for no bound.  shrink_seconds: time to shrink one schedule that kills its worker.
    deaths: after so many dead workers the remaining items are not run.
    """

    call_seconds: float = 10.0
    start_seconds: float = 120.0
    memory_mb: int | None = None
    shrink_seconds: float = 10.0
    deaths: int = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that a display of progress may want: ``kind`` is ``started``, ``progress``, ``finished``,
    ``died``, ``shrinking`` or ``output`` (what the adapter printed, made harmless, in ``text``).

    ``index`` counts the items from 0, of ``total``; ``steps`` are the calls made in this item so far.
    """

    kind: str
    item: str
    index: int
    total: int
    steps: int = 0
    text: str = ""


@dataclass(slots=True, kw_only=True)
class TargetInfo:
    """What a target says of itself before it is judged.

    capabilities: by the label of the configuration.  unsupported: labels of configurations that
    the target declined, with its reason; errors: those that it failed to make, likewise.
    versions: of python, kvlitmus, and what the target states.
    """

    name: str
    profile: Profile
    configs: tuple[Config, ...]
    capabilities: dict[str, frozenset[str]] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def probe(ref: TargetRef, *, configs: Sequence[Config] | None = None, limits: Limits | None = None) -> TargetInfo:
    """Ask a target for its profile, configurations and capabilities; raises :class:`TargetError`.

    ``configs`` instead of the target's own: those for which the capabilities are wanted.
    """
    raise NotImplementedError


def run_items(
    ref: TargetRef,
    items: Sequence[Item],
    options: Options,
    *,
    jobs: int = 1,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    state: Path | None = None,
) -> Iterator[ItemResult]:
    """The result of every item, in the order of the items, whatever ``jobs`` is.

    A worker that dies or hangs costs its item a finding of PORT-02, and nothing else.  Raises
    :class:`TargetError` when no worker can be started at all.  On ``KeyboardInterrupt`` inside
    the iterator the finished results are still yielded, then it is raised again; closing the
    iterator stops the workers.
    """
    raise NotImplementedError
