"""Pages of prompts on one rank of several, each with a copy on the host; all ranks must decide the same."""

from __future__ import annotations

Prefix = tuple[int, ...]


class RankCache:
    """Prefixes on this rank's device and host; a prefix is the tuple of its pages."""

    def __init__(self, pages: int, host_pages: int) -> None:
        self.pages, self.host_pages = pages, host_pages
        self.device: list[Prefix] = []  # least recently used first
        self.host: list[Prefix] = []
        self.writing: list[Prefix] = []  # copies to the host that all ranks have begun, in order
        self.written: set[Prefix] = set()  # those of them that have ended on this rank

    def room(self) -> tuple[int, int]:
        """Pages that are free, on the device and on the host."""
        return self.pages - len(self.device), self.host_pages - len(self.host) - len(self.writing)

    def match(self, key: Prefix) -> list[Prefix]:
        """What the device has of a key, page by page; used now."""
        found: list[Prefix] = []
        while len(found) < len(key) and key[: len(found) + 1] in self.device:
            found.append(key[: len(found) + 1])
        self.device = [one for one in self.device if one not in found] + found[::-1]
        return found

    def insert(self, key: Prefix, room: int, host_room: int) -> tuple[list[Prefix], list[Prefix]]:
        """Cache what is missing of a key where there is room: the pages that came, and those that are copied now."""
        known = self.match(key)
        came = [key[:end] for end in range(len(known) + 1, min(len(key), len(known) + room) + 1)]
        self.device += came[::-1]
        path = [*known, *came]
        copied = sum(1 for one in path if one in self.host or one in self.writing)
        begun = path[copied : copied + host_room]
        self.writing += begun
        return came, begun

    def acknowledge(self, count: int) -> list[Prefix]:
        """The first copies have ended on all ranks."""
        done, self.writing = self.writing[:count], self.writing[count:]
        self.host += done
        self.written.difference_update(done)
        return done

    def evict(self, pages: int) -> list[Prefix]:
        """Free so many pages of the device, ends of prefixes that no copy reads from; which they were."""
        gone: list[Prefix] = []
        while len(gone) < pages:
            inner = {one[:-1] for one in self.device}
            busy = set(self.writing) - self.written
            going = [one for one in self.device if one not in inner and one not in busy]
            if not going:
                break
            self.device.remove(going[0])
            gone.append(going[0])
        return gone
