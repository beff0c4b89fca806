"""What copies contents between the tiers: the little that the state machines need to know of it.

The control plane decides *which* pages are copied and what may not be touched meanwhile.  A :class:`Mover` copies them
and hands out a :class:`Ticket` for each copy.  It knows the contents of both pools, their layouts and their streams;
here these are page numbers.  The mover of tensors is :mod:`kvlitmus.optimized.data.transfer`; :class:`NullMover` moves
nothing, for whoever runs the control plane alone.

A mover is either **stepped**, so that a copy goes on only when its ticket is advanced, or **free-running**: it submits
the copy at once, and the ticket tells how far it is.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kvlitmus.optimized.storage.base import Buffer

PageArray: TypeAlias = npt.NDArray[np.int32]
"""Page numbers of one pool, in the order of the path."""


class Ticket(Protocol):
    """One copy between the tiers.

    The pages of both sides belong to the copy until it is :meth:`done`: who has submitted it neither reuses the source
    nor reads the target (but for layers that are ready) before.

    **A copy may fail.**  Then :meth:`advance`, :meth:`done` and :meth:`wait` raise, and so does :meth:`wait_layer` for
    a layer that is known not to come; where it fails later, what was computed after it is void.  The first three do so
    when the copy is over: nothing touches its pages any more, and what is in the target is anybody's guess.
    """

    def advance(self, layers: int | None = None) -> None:
        """Stepped: copy so many more layers, or all that are left; free-running: nothing."""

    def layers_ready(self) -> int:
        """How many layers are copied, counted from the first one."""

    def wait_layer(self, layer: int) -> None:
        """Let what the caller computes from here on come after this layer's copy.

        On a device the caller's current stream waits, and the call returns as soon as the layer's copy is submitted,
        which is long before it is made.  A layer of a stepped copy that was not advanced so far raises
        ``RuntimeError``: nobody would ever copy it.
        """

    def done(self) -> bool:
        """Whether everything is copied; it never blocks."""

    def wait(self, timeout: float | None = None) -> bool:
        """Block until everything is copied, at most so many seconds; whether it is.  A stepped copy is made now."""


class Mover(Protocol):
    """Copies pages between device and host, and shows host pages to storage.

    ``backup`` and ``load`` may raise: then nothing was submitted, and nothing will touch the pages.

    ``layers``: how many a load copies, one after the other.  ``page_bytes``: the bytes of a page in storage.
    """

    @property
    def layers(self) -> int:
        """How many layers a load copies, one after the other."""

    @property
    def page_bytes(self) -> int:
        """How many bytes a page has in storage: all layers, keys and values."""

    def backup(self, device_pages: PageArray, host_pages: PageArray) -> Ticket:
        """Copy device pages to host pages, after what the caller has computed so far (its current stream)."""

    def load(self, host_pages: PageArray, device_pages: PageArray) -> Ticket:
        """Copy host pages to device pages, layer by layer, after what the caller has computed so far."""

    def copy(self, device_pages: PageArray, to: PageArray) -> None:
        """Copy device pages to other ones, as the caller's current stream would: what it does next finds it done.

        It may raise; then anything may be in the target.
        """

    def save(self, device_pages: PageArray, host_pages: PageArray) -> object:
        """What is in these device pages, kept in memory of the host beside its pool, as the caller's current stream
        would read it: what it does next may write into them.

        Where a host page is named, and not -1, it is kept in place of what the device page holds.  It may raise, where
        there is no memory, say.
        """

    def restore(self, kept: object, device_pages: PageArray) -> None:
        """Bring what was kept into these device pages, as :meth:`copy` does."""

    def read_page(self, host_page: int) -> Buffer:
        """The contents of a host page in the order of storage: layer by layer, K before V, token by token.

        ``page_bytes`` long and the same for every layout of the pool.  It may be a view of the pool, and is not kept
        longer than the page is.  May be called from any thread.
        """

    def write_page(self, host_page: int, contents: Buffer) -> None:
        """Replace the contents of a host page; may be called from any thread."""


class NullTicket:
    """A copy of nothing, which takes its steps all the same."""

    __slots__ = ("layers", "ready")

    def __init__(self, layers: int, *, ready: int = 0) -> None:
        self.layers = layers
        self.ready = ready

    def advance(self, layers: int | None = None) -> None:
        """See :class:`Ticket`."""
        self.ready = self.layers if layers is None else min(self.layers, self.ready + layers)

    def layers_ready(self) -> int:
        """See :class:`Ticket`."""
        return self.ready

    def wait_layer(self, layer: int) -> None:
        """See :class:`Ticket`."""
        if layer >= self.ready:
            raise RuntimeError(f"layer {layer} of this copy is not copied yet: {self.ready} are ready", layer)

    def done(self) -> bool:
        """See :class:`Ticket`."""
        return self.ready == self.layers

    def wait(self, timeout: float | None = None) -> bool:
        """See :class:`Ticket`."""
        self.ready = self.layers
        return True


class NullMover:
    """Moves nothing: the control plane alone.  A page has no bytes in storage.

    ``stepped``: whether its copies wait to be advanced, or are done at once.
    """

    def __init__(self, layers: int = 3, *, stepped: bool = True) -> None:
        self.layers = layers
        self.page_bytes = 0
        self.stepped = stepped

    def backup(self, device_pages: PageArray, host_pages: PageArray) -> NullTicket:
        """See :class:`Mover`."""
        return self.ticket(device_pages, host_pages)

    def load(self, host_pages: PageArray, device_pages: PageArray) -> NullTicket:
        """See :class:`Mover`."""
        return self.ticket(host_pages, device_pages)

    def copy(self, device_pages: PageArray, to: PageArray) -> None:
        """See :class:`Mover`."""

    def save(self, device_pages: PageArray, host_pages: PageArray) -> object:
        """See :class:`Mover`."""
        return ()

    def restore(self, kept: object, device_pages: PageArray) -> None:
        """See :class:`Mover`."""

    def ticket(self, sources: PageArray, targets: PageArray) -> NullTicket:
        """A copy; raises ``ValueError`` when there are not as many targets as sources."""
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} pages can't be copied to {len(targets)}", len(sources), len(targets))
        return NullTicket(self.layers, ready=0 if self.stepped else self.layers)

    def read_page(self, host_page: int) -> Buffer:
        """See :class:`Mover`."""
        return b""

    def write_page(self, host_page: int, contents: Buffer) -> None:
        """See :class:`Mover`."""
