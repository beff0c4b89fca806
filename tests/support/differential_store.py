"""Storage for two caches in lock step: the first one's is recorded, the second one is given the same answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvlitmus.spec.interface.tiers import PageStore


class Asked(NamedTuple):
    """One call on record, and what came of it; ``raised`` where it raised."""

    method: str
    args: tuple[Any, ...]
    answer: Any = None
    raised: Exception | None = None

    @property
    def vain(self) -> bool:
        """Whether nothing came of it: a model that knows what the script says need not ask."""
        return self.raised is not None or not self.answer


class Recorder:
    """A store that notes every call for the :class:`Replayer` beside it."""

    def __init__(self, store: PageStore) -> None:
        self.store = store
        self.record: deque[Asked] = deque()

    def left(self) -> list[Asked]:
        """What the second one has not asked, although something came of it."""
        return [asked for asked in self.record if not asked.vain]

    def call(self, method: str, *args: Any) -> Any:
        """Make a call and note it."""
        try:
            answer = getattr(self.store, method)(*args)
        except Exception as error:
            self.record.append(Asked(method, args, None, error))
            raise
        self.record.append(Asked(method, args, answer))
        return answer

    def exists(self, names: Sequence[str]) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.PageStore`."""
        return self.call("exists", tuple(names))  # type: ignore[no-any-return]

    def get(self, name: str) -> tuple[int, ...] | None:
        """See :class:`~kvlitmus.spec.interface.tiers.PageStore`."""
        return self.call("get", name)  # type: ignore[no-any-return]

    def put(self, name: str, contents: Sequence[int]) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.PageStore`."""
        return self.call("put", name, tuple(contents))  # type: ignore[no-any-return]


class Replayer:
    """A store that answers what the first one was answered; what is asked beyond that stays on the record."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def call(self, method: str, *args: Any) -> Any:
        """The answer to the same call of the first one."""
        record = self.recorder.record
        if not record or record[0][:2] != (method, args):
            self.recorder.record.append(Asked(f"not {method}", args, "asked by the second alone"))
            return 0 if method == "exists" else None
        asked = record.popleft()
        if asked.raised is not None:
            raise asked.raised
        return asked.answer

    def exists(self, names: Sequence[str]) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.PageStore`."""
        return self.call("exists", tuple(names))  # type: ignore[no-any-return]

    def get(self, name: str) -> tuple[int, ...] | None:
        """See :class:`~kvlitmus.spec.interface.tiers.PageStore`."""
        return self.call("get", name)  # type: ignore[no-any-return]

    def put(self, name: str, contents: Sequence[int]) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.PageStore`."""
        return bool(self.call("put", name, tuple(contents)))
