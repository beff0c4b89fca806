"""The specimen's host tier below the tree: the pool, the contents of both pools, and copies between them."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.prefix.pool import PagedPool

UNSTORED, UNDER_WAY, STORED = range(3)
"""What is known of a host page's copy in storage."""


class HostPool(PagedPool):
    """The pages of the host; no page is reserved.

    Upkeep: ``releasing`` holds pages that nobody uses any more and that the next tick frees;
    ``stored`` says of each page whether storage has its contents, from the moment it is handed out.
    """

    def __init__(self, pages: int, page_size: int) -> None:
        super().__init__(pages, page_size, 0)
        self.releasing: list[int] = []
        self.stored = bytearray(pages)
        self.refuse_after: int | None = None

    def take(self, count: int) -> list[int] | None:
        """The first ``count`` pages of the free list, or ``None``; once ``None`` when a fault was asked for."""
        if self.refuse_after is not None:
            self.refuse_after -= 1
            if self.refuse_after < 0:
                self.refuse_after = None
                return None
        pages = super().take(count)
        if pages is not None:
            for page in pages:
                self.stored[page] = UNSTORED
        return pages

    def let_go(self, pages: Sequence[int]) -> None:
        """Put pages on the release queue."""
        self.releasing += pages

    def drain(self) -> None:
        """Free what is on the release queue."""
        if self.releasing:
            pages, self.releasing = self.releasing, []
            self.give_back(pages)


class CopyFailed(Exception):
    """Contents could not be moved."""


NOBODY = -1
"""What a copy that failed leaves in a slot."""


class Copier:
    """The contents of device and host, one number per slot, and the copies between them, page by page.

    ``failing``: by kind of copy, how many more go well before one fails.
    """

    def __init__(self, page_size: int, device_pages: int, host_pages: int) -> None:
        self.page_size = page_size
        self.device = [0] * (device_pages * page_size)
        self.host = [0] * (host_pages * page_size)
        self.failing: dict[str, int] = {}

    def submit(self, kind: str) -> None:
        """A copy of this kind is to begin; raises ``CopyFailed`` when it can't."""
        left = self.failing.pop(kind, None)
        if left == 0:
            raise CopyFailed(kind)
        if left is not None:
            self.failing[kind] = left - 1

    def spoil(self, tier: str, pages: Sequence[int]) -> None:
        """A copy into these pages has failed: they hold nobody's contents."""
        contents = self.device if tier == "device" else self.host
        for page in pages:
            contents[page * self.page_size : (page + 1) * self.page_size] = [NOBODY] * self.page_size

    def to_host(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy device pages to host pages."""
        self.copy(self.device, sources, self.host, targets)

    def to_device(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy host pages to device pages."""
        self.copy(self.host, sources, self.device, targets)

    def copy(self, here: list[int], sources: Sequence[int], there: list[int], targets: Sequence[int]) -> None:
        """Copy pages of one pool to pages of the other."""
        size = self.page_size
        for source, target in zip(sources, targets, strict=True):
            there[target * size : target * size + size] = here[source * size : source * size + size]

    def read(self, page: int) -> tuple[int, ...]:
        """The contents of a host page."""
        return tuple(self.host[page * self.page_size : (page + 1) * self.page_size])

    def write(self, page: int, contents: Sequence[int]) -> None:
        """Write a host page."""
        size = self.page_size
        self.host[page * size : page * size + size] = contents[:size]
