"""Jobs of storage: which pages are read and written, under which names, how far, and what is reported of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from tests.proofs.optimized.claims import proof
from tests.proofs.support.search import Run, every
from tests.proofs.support.source import Slip, Source

WORK = "kvlitmus.optimized.work"


class Storage:
    """A store that has each page or not, takes each or not, and may raise instead of any answer."""

    def __init__(self, run: Run, said: list[Any]) -> None:
        self.run, self.said = run, said
        self.asked = 0

    def trouble(self) -> None:
        """Perhaps raise."""
        self.asked += 1
        if self.run.whether(f"raises{self.asked}"):
            raise OSError

    def get(self, names: Sequence[int], size: int) -> list[Any]:
        assert size == PAGE_BYTES
        self.trouble()
        return [("contents", name) if self.run.whether(f"has{name}") else None for name in names]

    def put(self, names: Sequence[int], contents: Sequence[Any]) -> list[bool]:
        self.said += zip(names, contents, strict=True)
        self.trouble()
        return [self.run.whether(f"takes{name}") for name in names]


class Memory:
    """A mover, of which only what storage has of it is wanted."""

    page_bytes = 7

    def __init__(self, said: list[Any]) -> None:
        self.said = said

    def read_page(self, page: Any) -> Any:
        return page

    def write_page(self, page: Any, contents: Any) -> None:
        self.said.append((contents[1], page))


PAGE_BYTES = Memory.page_bytes


class Cancelled:
    """A work that is cancelled at any time, or never: after so many questions to storage."""

    def __init__(self, run: Run, kind: str, names: list[int], pages: list[Any], store: Storage) -> None:
        self.run, self.kind, self.names, self.host_pages, self.store = run, kind, names, pages, store

    def after(self, asked: int) -> bool:
        """Whether it is cancelled by then."""
        return any(self.run.whether(f"cancelled{one}") for one in range(asked + 1))

    @property
    def cancelled(self) -> bool:
        return self.after(self.store.asked)


def stopped(said: list[Any], pages: list[Any], upto: int) -> object:
    """Whether exactly the first so many pages were named, each once and in order, under their own names."""
    if [name for name, _ in said] != list(range(upto)):
        return False
    return every([page == pages[name] for name, page in said])


def first_without(run: Run, what: str, count: int) -> int:
    """How many of the first pages storage has, or takes."""
    return next((name for name in range(count) if not run.whether(f"{what}{name}")), count)


BATCH = "some = names[done : min(done + batch, wanted)]"
STEPS = tuple(product((0, 1, 3, 4), (1, 2, 3), (None, 0, 2)))
"""Pages of a job, how many storage is asked for at once, and how many of the job are wanted."""

BOUNDS = "jobs of at most four pages, in batches of at most three; any pages, and all that storage may say or raise"


@proof(
    "FETCH-09",
    "FETCH-10",
    bounds=BOUNDS,
    slips=[
        Slip(WORK, BATCH + "\n        good", "some = names[done : done + batch]\n        good", case=26),
        Slip(
            WORK,
            "if contents is None:\n                break",
            "if contents is None:\n                continue",
            case=21,
        ),
        Slip(WORK, "zip(host_pages[done : done + len(some)], found", "zip(host_pages, found"),
    ],
    cases=STEPS,
)
def a_fetch_reads_its_pages_in_order_up_to_the_first_miss(
    source: Source, run: Run, case: tuple[int, int, int | None]
) -> object:
    """Each into its own host page; it counts those, and says whether it ended early."""
    count, batch, limit = case
    said: list[Any] = []
    work, store, pages = source.module(WORK, int=lambda one: one), Storage(run, said), run.numbers_named("page", count)
    done, over = work.read_pages(store, Memory(said), list(range(count)), pages, limit, batch=batch)
    wanted = count if limit is None else min(limit, count)
    good = min(first_without(run, "has", wanted), raised(run, store, batch))
    return every([stopped(said, pages, good), done == good, over == (good < wanted)])


def raised(run: Run, store: Storage, batch: int) -> int:
    """How many pages there were before the batch at which storage raised."""
    return next((batch * at for at in range(store.asked) if run.whether(f"raises{at + 1}")), batch * store.asked)


@proof(
    "BACKUP-07",
    bounds=BOUNDS,
    slips=[
        Slip(WORK, BATCH + "\n        contents", "some = names[done : done + batch]\n        contents", case=26),
        Slip(WORK, "        if not one:\n            break\n        good += 1", "        good += bool(one)", case=21),
        Slip(WORK, "in host_pages[done : done + len(some)]]", "in host_pages[: len(some)]]"),
    ],
    cases=STEPS,
)
def a_put_writes_its_pages_in_order_up_to_the_first_refusal(
    source: Source, run: Run, case: tuple[int, int, int | None]
) -> object:
    """Each under its own name, none of a batch behind one that was refused; it counts those that were taken."""
    count, batch, limit = case
    said: list[Any] = []
    work, store, pages = source.module(WORK, int=lambda one: one), Storage(run, said), run.numbers_named("page", count)
    done, over = work.write_pages(store, Memory(said), list(range(count)), pages, limit, batch=batch)
    wanted = count if limit is None else min(limit, count)
    good = min(first_without(run, "takes", wanted), raised(run, store, batch))
    offered = wanted if good == wanted else min(wanted, good - good % batch + batch)
    return every([stopped(said, pages, offered), done == good, over == (good < wanted)])


@proof(
    "FETCH-10",
    "BACKUP-07",
    bounds=f"{BOUNDS}; cancelled at any time",
    slips=[
        Slip(WORK, "            at += done\n", "            at += 1\n", case=7),
        Slip(WORK, "not over and not work.cancelled and at", "not over and at"),
        Slip(WORK, "                done = 0\n", "", case=6),
        Slip(WORK, "step = read_pages if work.kind == FETCH else write_pages", "step = read_pages", case=15),
    ],
    cases=tuple(product(("fetch", "put"), (0, 1, 3, 4), (1, 2, 3))),
)
def a_job_reports_each_page_once_and_its_end_last(source: Source, run: Run, case: tuple[str, int, int]) -> object:
    """What its reports count is what was done, the last report and no other says that it is over, and then it is.

    It ends with the first page that is missing or refused, or between two batches once it is cancelled.
    """
    kind, count, batch = case
    said: list[Any] = []
    reports: list[tuple[int, bool]] = []
    module, pages = source.module(WORK, int=lambda one: one), run.numbers_named("page", count)
    store = Storage(run, said)
    work = Cancelled(run, kind, list(range(count)), pages, store)

    def report(progress: Any) -> None:
        assert progress.work is work and (not reports or not reports[-1][1]), "a report behind the last one"
        reports.append((progress.pages, progress.over))

    module.carry_out(work, Memory(said), report, batch=batch)
    good = min(first_without(run, "has" if kind == "fetch" else "takes", count), raised(run, store, batch))
    asked = min(count, store.asked * batch)
    if store.asked and work.after(store.asked - 1):
        return False
    ended = good < asked or asked == count or work.after(store.asked)
    told = sum(pages for pages, _ in reports)
    return every([stopped(said[:told], pages, told), told == good, reports[-1][1], ended])
