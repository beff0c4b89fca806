"""The interface of a sparse host pool: pages of host memory behind rows of tokens.

With sparse attention the KV of a running request is kept on the host, token by token, and few of its tokens are copied to
the device at each step.  Each request has a **row**: the host slots of its tokens, in order.  Memory is handed out in
pages all the same.  A sparse host pool is asked for with ``Config(pool="sparse")``, of ``pages`` pages of ``page_size``
slots; the adapter needs no other pool and no tree, only :class:`SparseHost`, and of the rest what it can offer.

Where several tokens of the model are compressed to one (the profile's ``sparse_ratio``, q), rows and buffers hold those that
are compressed.  Slots, starts, counts and the tokens that are wanted count these; prompts and lengths of sequences, what is
staged, reserved or admitted, count tokens of the model, and the last ones that fill no group of q have no slot yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class SparseShape(NamedTuple):
    """How many rows there are, numbered from 0 on, and how many slots a row has room for.

    Whole pages must fit into a row: of a ``width`` that is no multiple of the page the rest is of no use.
    """

    rows: int
    width: int


class SparseView(NamedTuple):
    """Everything there is: the free slots in any order, and the slots of each row that has some, in order."""

    free: Sequence[int]
    rows: Mapping[int, Sequence[int]]


class SparseHost(Protocol):
    """Host memory by the page, behind rows of tokens."""

    def sparse_shape(self) -> SparseShape:
        """How many rows there are, and how wide they are; always the same."""

    def sparse_request(self, row: int, start: int, tokens: int) -> Sequence[int] | None:
        """The slots of so many tokens of a row, from the token ``start`` on; pages that the row lacks are allocated.

        Refused by ``None`` or by an error, whichever the pool has.  After either nothing has changed.
        """

    def sparse_read(self, row: int) -> Sequence[int]:
        """All slots that a row has, in order, those that nobody has asked for yet included."""

    def sparse_free(self, row: int) -> None:
        """Give all pages of a row back; it is empty then, and may be used again."""

    def sparse_available(self) -> int:
        """How many slots are free."""


class SparseInspect(Protocol):
    """A full snapshot."""

    def sparse_view(self) -> SparseView:
        """Free slots and rows."""


class SparseAbort(Protocol):
    """A request that its client gives up, wherever it stands."""

    def sparse_abort(self, row: int) -> None:
        """The request of a row is aborted: the row is given back as by ``sparse_free``."""


class SparseStaging(Protocol):
    """Requests whose KV was computed on the device: it is copied to the host before they decode.

    Copies go on while the server does other things.  They are numbered from 0 on in the order in which they began; of each
    the row and its slots are those of the call that began it.
    """

    def sparse_prefills(self, tokens: int) -> bool:
        """Whether the device has room to compute a prompt of so many tokens now; one that it hasn't is not staged."""

    def sparse_stage(self, row: int, tokens: int) -> Sequence[int] | None:
        """The host slots of the first tokens of a row that has none; a copy of these tokens from the device begins.

        Granted and refused as ``sparse_request`` of as many tokens; where it is refused, no copy begins.
        """

    def sparse_copied(self, copy: int) -> None:
        """The device has done this copy, and those before it that can't be later; the suite says so in the device's stead."""

    def sparse_copying(self) -> Sequence[int]:
        """The copies that have begun and not ended; whoever had to wait for one has seen it end."""

    def sparse_ready(self) -> Sequence[int]:
        """The rows that are acknowledged now, each once: they are on the host, and begin to decode.

        Acknowledged are rows whose copies have ended, in the order in which they were staged, one or more at a time.
        """

    def sparse_retract(self, row: int) -> None:
        """The request of a row is retracted and will be computed anew: the row is given back as by ``sparse_free``.

        A row that is staged ends so, or by ``sparse_abort``; its copy may still go on then.  Pages that a copy writes to are
        not free before it has ended, in whichever way: the call waits for it, or they are free later.
        """


class SparseTransfers(Protocol):
    """Requests whose KV a peer computed: it is written into host memory from there before they decode.

    All slots of the prompt are had beforehand, as destinations.  Transfers go on while the server does other things.  They
    are numbered from 0 on in the order in which they began.
    """

    def sparse_receives(self, tokens: int) -> bool:
        """Whether the device has room to decode a prompt of so many tokens that comes from a peer; else none is asked for."""

    def sparse_prealloc(self, row: int, tokens: int, page_size: int) -> Sequence[int] | None:
        """The host slots of a whole prompt, for a row that has none; a peer with pages of ``page_size`` begins to write there.

        Granted and refused as ``sparse_request`` of as many tokens, and refused for a peer that ``sparse_connect`` refuses;
        where it is refused, no transfer begins.
        """

    def sparse_destinations(self, row: int) -> Sequence[int]:
        """The pages of the pool that the peer was told to write to, in the order of the prompt."""

    def sparse_transferred(self, transfer: int, arrived: bool) -> None:
        """The peer has ended this transfer: all KV has arrived, or the transfer failed; the suite says so in its stead.

        The request of a row whose KV has arrived begins to decode, as by ``sparse_admit``; a row whose transfer failed is given
        back as by ``sparse_free``.  Of a row that was given back before, nothing is left but pages that the peer wrote to.
        """

    def sparse_transferring(self) -> Sequence[int]:
        """The transfers that have begun and not ended; whoever had to wait for one, or broke it off, has seen it end.

        A row ends during its transfer by ``sparse_abort`` or ``sparse_retract``.  Pages that a peer writes to are not free before
        its transfer has ended, in whichever way: the call sees to it that it ends, or they are free later.
        """


class SparseBuffers(Protocol):
    """The buffer on the device that a row decodes from: few of its tokens, copied from the host where they are missing."""

    def sparse_buffer(self) -> int:
        """How many tokens the buffer of a row has room for; always the same.

        These are its places, numbered from 0 on.  The newest token of a sequence that is longer has one more, behind them.
        """

    def sparse_admit(self, row: int, length: int) -> None:
        """The request of a row begins to decode; the KV of so many tokens is in its host slots, and nowhere else.

        Tokens that fit into the buffer are all copied there, each to the place of its own number; of more, none is.
        """


class SparseSwaps(Protocol):
    """Which tokens a step finds in its buffer, and which it puts there; only with :class:`SparseBuffers`."""

    def sparse_swap(self, row: int, length: int, tokens: Sequence[int]) -> Sequence[int]:
        """The places of these tokens of a sequence that is ``length`` tokens long now, its newest one computed here.

        The tokens are distinct and no more than the buffer has room for; all but the newest have host slots.  What else is
        wanted is misuse: rejected by an error or ignored, and nothing has changed then, as the profile's ``misuse`` says.
        """


class SparseGrowth(Protocol):
    """The pool of places on the device behind the buffers: a buffer takes more of it as its sequence grows.

    A buffer with room for B tokens grows page by page, as its sequence does, up to B; then it gets a page more, or a part of
    one, whose first slot is the newest token's own.  Or it is whole from the beginning, as the profile's ``sparse_grows`` says.
    B is what ``sparse_buffer`` answers: without :class:`SparseBuffers` nothing is judged here.
    """

    def sparse_device_available(self) -> int:
        """How many slots of the device's pool are free."""

    def sparse_device_buffer(self, row: int) -> Sequence[int]:
        """The device slots of a row's buffer, that of place 0 first; none of a row that doesn't decode, unless it will.

        A place of a row that decodes keeps its slot for as long as it holds the same token.
        """

    def sparse_grow(self, row: int, length: int) -> int | None:
        """A step makes room for its newest token, the last of ``length``; answers the device slot of that token.

        Refused by ``None`` or by an error where the device's pool has too few slots, and nothing has changed then.  A row that
        begins to decode has room for its tokens: nobody is admitted, staged or sent for whom the device has none.
        """


class SparseBackups(Protocol):
    """Requests that decode: each step computes a token on the device, and the one before it goes to the host."""

    def sparse_back_up(self, row: int, length: int) -> Sequence[int] | None:
        """A step of a row whose sequence is ``length`` tokens long now, its newest one computed here.

        Answers the host slot to which the token before the newest is copied; nothing if the host has that token, as in the
        first step after an admission or an acknowledgement.  Of q tokens that are compressed to one, the step after the last
        of them copies it, to slot (length − 1) / q − 1 of the row, and the others copy nothing.  Refused where no slot can be had, and nothing has changed then.
        """


class SparseAdmission(Protocol):
    """Admission that counts host memory: what is admitted finds its pages when it comes to them."""

    def sparse_reserve(self, row: int, tokens: int) -> bool:
        """Whether a request is admitted that will have no more than so many tokens; its row has no pages yet.

        Nothing is allocated.  Until the row is given back, its pages up to that length are promised to it.
        """


class SparsePeer(Protocol):
    """What another machine writes into the rows: KV that was computed there."""

    def sparse_connect(self, page_size: int) -> bool:
        """Whether a peer with pages of so many tokens is accepted."""


SPARSE_PORTS: dict[str, tuple[str, ...]] = {
    "sparse": ("sparse_shape", "sparse_request", "sparse_read", "sparse_free", "sparse_available"),
    "sparse_inspect": ("sparse_view",),
    "sparse_abort": ("sparse_abort",),
    "sparse_staging": (
        *("sparse_prefills", "sparse_stage", "sparse_copied", "sparse_copying"),
        *("sparse_ready", "sparse_retract"),
    ),
    "sparse_transfer": (
        *("sparse_receives", "sparse_prealloc", "sparse_destinations"),
        *("sparse_transferred", "sparse_transferring"),
    ),
    "sparse_buffers": ("sparse_buffer", "sparse_admit"),
    "sparse_swaps": ("sparse_swap",),
    "sparse_growth": ("sparse_device_available", "sparse_device_buffer", "sparse_grow"),
    "sparse_backups": ("sparse_back_up",),
    "sparse_admission": ("sparse_reserve",),
    "sparse_peer": ("sparse_connect",),
}
"""Those of a sparse host pool: capability → the methods that make it up."""
