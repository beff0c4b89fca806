"""A prefix cache with host memory: every page is copied there when it is inserted, and comes back when it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count

Prefix = tuple[str | None, tuple[int, ...]]


@dataclass(eq=False)
class Page:
    """A page that is cached: where it is on the device and on the host, when it was used, how often it is locked."""

    prefix: Prefix
    device: int | None = None
    host: int | None = None
    used: int = 0
    locks: int = 0


class TwoTiers:
    """Pages by their prefixes, over two pools; ``device`` and ``host`` are the memory, a list for each page."""

    def __init__(self, num_pages: int, num_host_pages: int, page_size: int) -> None:
        self.size = page_size
        self.device = [[0] * page_size for _ in range(num_pages)]
        self.host = [[0] * page_size for _ in range(num_host_pages)]
        self.device_free, self.host_free = list(range(num_pages)), list(range(num_host_pages))
        self.pages: dict[Prefix, Page] = {}
        self.time = count(1)

    def path(self, tenant: str | None, tokens: tuple[int, ...]) -> list[Page]:
        """What is cached of a prompt, on either tier; used now."""
        found, now = list[Page](), next(self.time)
        for end in range(self.size, len(tokens) + 1, self.size):
            page = self.pages.get((tenant, tokens[:end]))
            if page is None:
                break
            page.used = now
            found.append(page)
        return found

    def match(self, tenant: str | None, tokens: tuple[int, ...]) -> tuple[list[Page], int]:
        """The pages that are on the device, and how many more are on the host alone."""
        path = self.path(tenant, tokens)
        here = [page for page in path if page.device is not None]
        return here, len(path) - len(here)

    def insert(self, tenant: str | None, tokens: tuple[int, ...], pages: list[int]) -> int:
        """Cache a prompt's pages, and copy them to the host; how many were on the device before."""
        here, _ = self.match(tenant, tokens)
        now = next(self.time)
        for at, number in enumerate(pages[: len(tokens) // self.size]):
            prefix = (tenant, tokens[: (at + 1) * self.size])
            page = self.pages.setdefault(prefix, Page(prefix))
            page.used = now
            if page.device is None:
                page.device = number
            if page.host is None and (self.host_free or self.evict_host(1)):
                page.host = self.host_free.pop()
                self.host[page.host] = list(self.device[page.device])
        return len(here)

    def load_back(self, tenant: str | None, tokens: tuple[int, ...]) -> tuple[int, list[Page] | None]:
        """Bring back what is on the host alone: the pages before it, and those that came; None without room."""
        path = self.path(tenant, tokens)
        wanted = [page for page in path if page.device is None]
        self.evict(len(wanted) - len(self.device_free))
        if not wanted or len(wanted) > len(self.device_free):
            return len(path) - len(wanted), None
        for page in wanted:
            page.device = self.device_free.pop()
            assert page.host is not None
            self.device[page.device] = list(self.host[page.host])
        return len(path) - len(wanted), wanted

    def evict(self, wanted: int, spared: Collection[Page] = ()) -> int:
        """Make room on the device, without these pages; what has a copy on the host stays cached."""
        freed, stay = 0, {*spared, *(page for page in self.pages.values() if page.locks)}
        while freed < wanted and (page := self.victim(lambda one: one.device is not None and one not in stay)):
            assert page.device is not None
            self.device_free.append(page.device)
            page.device = None
            if page.host is None:
                del self.pages[page.prefix]
            freed += 1
        return freed

    def evict_host(self, wanted: int) -> int:
        """Make room on the host, by what is there alone."""
        freed = 0
        while freed < wanted and (page := self.victim(lambda one: one.device is None)):
            assert page.host is not None
            self.host_free.append(page.host)
            del self.pages[page.prefix]
            freed += 1
        return freed

    def victim(self, may_go: Callable[[Page], bool]) -> Page | None:
        """Of the pages that may go the least recently used one, and of a path its end."""
        going = [page for page in self.pages.values() if may_go(page)]
        return min(going, key=lambda page: (page.used, -len(page.prefix[1])), default=None)
