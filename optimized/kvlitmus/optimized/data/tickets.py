"""Copies that are made step by step, or by a thread: tickets of movers on CPU tensors, and of stepped ones anywhere.

The tickets of free-running movers on CUDA are in :mod:`kvlitmus.optimized.data.lane`.
"""

from __future__ import annotations

import threading

from kvlitmus.optimized.data.copies import PageCopy
from kvlitmus.optimized.data.tables import Tables


class SteppedTicket:
    """A copy that goes on only when it is advanced."""

    __slots__ = ("_copy", "_ready", "_tables", "layers")

    def __init__(self, copy: PageCopy, tables: Tables) -> None:
        self.layers = copy.source.shape.layers
        self._copy = copy
        self._tables = tables
        self._ready = 0

    def advance(self, layers: int | None = None) -> None:
        """Copy so many more layers, or all that are left; they are copied on return."""
        left = self.layers - self._ready
        some = left if layers is None else min(left, layers)
        if some > 0:
            self._copy.finish(self._tables, lo=self._ready, hi=self._ready + some)
            self._ready += some

    def layers_ready(self) -> int:
        """How many layers are copied."""
        return self._ready

    def wait_layer(self, layer: int) -> None:
        """Nothing, if the layer is copied; raises ``RuntimeError`` if it isn't: nobody would ever copy it."""
        if layer >= self._ready:
            raise RuntimeError(f"layer {layer} of this copy is not copied yet: {self._ready} are ready", layer)

    def done(self) -> bool:
        """Whether all layers are copied."""
        return self._ready == self.layers

    def wait(self, timeout: float | None = None) -> bool:
        """Copy what is left."""
        self.advance()
        return True

    def cancel(self) -> None:
        """Copy nothing more; the copy counts as done and the pages of both sides are free."""
        self._ready = self.layers


class ThreadTicket:
    """A copy that a thread makes, layer by layer."""

    __slots__ = ("_cancelled", "_copy", "_ended", "_error", "_moved", "_ready", "_tables", "layers")

    def __init__(self, copy: PageCopy, tables: Tables) -> None:
        self.layers = copy.source.shape.layers
        self._copy = copy
        self._tables = tables
        self._ready = 0
        self._ended = False
        self._cancelled = False
        self._error: BaseException | None = None
        self._moved = threading.Condition()

    def run(self) -> None:
        """Make the copy; the thread calls this."""
        try:
            for layer in range(self.layers):
                if not self.goes_on(layer):
                    break
                self._copy.finish(self._tables, lo=layer, hi=layer + 1)
                with self._moved:
                    self._ready = layer + 1
                    self._moved.notify_all()
        except BaseException as error:  # noqa: BLE001  whoever waits is told
            self._error = error
        finally:
            with self._moved:
                self._ended = True
                self._moved.notify_all()

    def goes_on(self, layer: int) -> bool:
        """Whether this layer is to be copied."""
        return not self._cancelled

    def advance(self, layers: int | None = None) -> None:
        """Nothing: the thread goes on by itself."""

    def layers_ready(self) -> int:
        """How many layers are copied."""
        return self._ready

    def wait_layer(self, layer: int) -> None:
        """Block until a layer is copied.  Raises ``RuntimeError`` if the copy has failed or was cancelled before it."""
        with self._moved:
            self._moved.wait_for(lambda: self._ready > layer or self._ended)
        if self._ready <= layer:
            raise RuntimeError(f"layer {layer} of this copy will not come", layer) from self._error

    def done(self) -> bool:
        """Whether the copy is over.  Raises ``RuntimeError`` if it has failed."""
        if self._ended and self._error is not None:
            raise RuntimeError("a copy failed") from self._error
        return self._ended

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the copy is over, at most so many seconds; whether it is.  Raises as :meth:`done` does."""
        with self._moved:
            self._moved.wait_for(lambda: self._ended, timeout)
        return self.done()

    def cancel(self) -> None:
        """Copy no layer that was not begun; the pages belong to the copy until it is :meth:`done`, as ever."""
        self._cancelled = True
