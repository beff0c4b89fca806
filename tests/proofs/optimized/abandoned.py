"""Work that a reset could not wait for: what is abandoned, how long it is waited, and that its pages are nobody's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any

import numpy as np

from kvlitmus.spec.prefix.rules.pool import one_home
from kvlitmus.spec.words.units import PageNo
from tests.proofs.optimized.claims import proof
from tests.proofs.support.search import Run, alike, every, some
from tests.proofs.support.source import Slip, Source

LATE = "kvlitmus.optimized.late"
POOL = "kvlitmus.optimized.pool"

PATIENCE = 50
"""Time is counted in whole numbers here."""

# How long it is waited


class Waiting:
    """Copies that are over or not, storage jobs that report their end or don't, and a clock that goes on meanwhile.

    From its second turn on the runner has nothing to tell before the time is up that it was given: so it comes to an
    end within a few turns.
    """

    def __init__(self, run: Run, works: Sequence[Any]) -> None:
        self.run, self.works = run, works
        self.now = run.number("begin", 0)
        self.until = run.number("until", 0)
        run.assume(self.until <= self.now + 2 * PATIENCE)
        self.begun = self.now
        self.turns = 0
        self.over: set[int] = set()
        self.asked: set[int] = set()

    def monotonic(self) -> Any:
        return self.now

    def passes(self, name: str, most: Any, least: Any = 0) -> None:
        """So much time passes."""
        spent = self.run.number(name, 0)
        self.run.assume(spent <= most)
        self.run.assume(spent >= least)
        self.now = self.now + spent

    def wait_over(self, work: Any, seconds: Any) -> bool:
        """Wait for a copy, whose ticket is the work itself."""
        self.run.owe(seconds <= self.until - self.now, "this waits for longer than it may")
        self.asked.add(work.id)
        over = self.run.whether(f"over{work.id}")
        if bool(seconds > 0):
            self.passes(f"copied{work.id}", seconds, 0 if over else seconds)
        if over:
            self.over.add(work.id)
        return over

    def drain(self, timeout: Any) -> list[Any]:
        """What the jobs of storage have to tell."""
        self.run.owe(timeout > 0, "this need not wait")
        self.run.owe(timeout <= self.until - self.now, "this waits for longer than it may")
        self.turns += 1
        self.passes(f"drained{self.turns}", timeout, 0 if self.turns == 1 else timeout)
        reports = [self.report(work) for work in self.works if work.job and work.id not in self.over]
        return [one for one in reports if one is not None]

    def report(self, work: Any) -> Any:
        """Nothing, that something was done, or that it is over."""
        name = f"{self.turns}of{work.id}"
        if not self.run.whether(f"told{name}"):
            return None
        over = self.run.whether(f"ended{name}")
        if over:
            self.over.add(work.id)
        return SimpleNamespace(work=work, over=over, pages=1)


def work_of(number: int, what: str) -> Any:
    """A copy, which has a ticket, or a job of storage; of a kind in capitals it had landed."""
    made = SimpleNamespace(id=number, kind="load", cancelled=False, landed=what.isupper(), job=what in "jJ")
    made.ticket = None if made.job else made
    made.device_pages = made.host_pages = []
    return made


def late_of(source: Source, **stand_ins: Any) -> Any:
    """The module, which tells nobody."""
    quiet = SimpleNamespace(getLogger=lambda _: SimpleNamespace(warning=lambda *_: None))
    return source.module(LATE, {"PATIENCE": PATIENCE}, logging=quiet, **stand_ins)


@proof(
    "POOL-12",
    bounds="at most two copies or jobs of storage, and one abandoned before; any time, up to two turns of the runner's",
    slips=[
        Slip(LATE, "            work.cancelled = True\n", ""),
        Slip(LATE, "            if not work.landed:\n", "            if work.ticket is None:\n"),
        Slip(LATE, "runner.drain(min(PATIENCE, left))", "runner.drain(PATIENCE)"),
        Slip(LATE, "            left = until - time.monotonic()\n", "            left = 0\n"),
        Slip(LATE, "            elif report.over:\n", "            else:\n"),
        Slip(LATE, "wait_over(work.ticket, until - time.monotonic())", "wait_over(work.ticket, 1)"),
    ],
    cases=["c", "j", "C", "J", "cj", "cC", "jJ", "c+c", "c+j", "+c", "+j"],
    more=["jc", "cc", "jj", "j+j", "j+c"],
)
def what_has_not_ended_in_time_is_abandoned(source: Source, run: Run, case: str) -> object:
    """All is told to end; what was not over, and is not told to be, is abandoned, and nothing else; not before time.

    What stands behind a plus had been abandoned by an earlier reset.
    """
    mine, _, earlier = case.partition("+")
    works = [work_of(number, what) for number, what in enumerate(mine)]
    old = [work_of(number, what) for number, what in enumerate(earlier, len(works))]
    waiting = Waiting(run, [*works, *old])
    late = late_of(source, time=waiting, wait_over=waiting.wait_over).LateWork()
    late.works.update({work.id: work for work in old})
    late.give_up(works, waiting, waiting.until)
    told = all(work.cancelled for work in works)
    awaited = [work for work in (*works, *old) if not work.landed]
    left = {work.id for work in awaited} - waiting.over
    copies = {work.id for work in awaited if not work.job}
    early = bool(waiting.now < waiting.until) and any(work.job for work in awaited if work.id in left)
    return told and set(late.works) == left and waiting.asked == copies and not early


# Whose pages are withheld


def distinct(pages: Iterable[Any]) -> list[Any]:
    """Each of these pages once."""
    found: list[Any] = []
    for page in pages:
        if not any(bool(page == one) for one in found):
            found.append(page)
    return found


class Lists:
    """What the module has of numpy, for pages that are not known."""

    unique = staticmethod(distinct)
    concatenate = staticmethod(lambda parts: [page for part in parts for page in part])


class WithholdingPool:
    """A pool that is told which pages to withhold."""

    def __init__(self) -> None:
        self.withheld: list[Any] = []

    def withhold(self, pages: list[Any]) -> None:
        assert all(bool(one != other) for at, one in enumerate(pages) for other in pages[:at]), "a page is named twice"
        self.withheld = pages


KINDS = (("load",), ("backup", "fetch"), ("query", "load"), ("fetch", "fetch"))
EVENTS = ("nothing", "look", "others")


@proof(
    "POOL-12",
    bounds="every page; at most three works of up to two pages each, which may share some; each over or not",
    slips=[
        Slip(
            LATE, " for work in self.works.values() if work.kind != QUERY]", " for work in self.works.values()]", case=6
        ),
        Slip(LATE, "np.unique(np.concatenate(parts))", "np.concatenate(parts)"),
        Slip(LATE, "del self.works[work.id]\n        self.tell_pools()\n", "del self.works[work.id]\n"),
        Slip(LATE, "host.withhold(self.pages([work.host_pages", "host.withhold(self.pages([work.device_pages"),
        Slip(LATE, "if report.work.id not in self.works:", "if not report.over:"),
        Slip(LATE, "wait_over(work.ticket, 0.0)", "not wait_over(work.ticket, 0.0)"),
    ],
    cases=(*product(KINDS, EVENTS), (("backup", "fetch", "query"), "others")),
)
def pages_of_abandoned_work_and_no_others_are_withheld(
    source: Source, run: Run, case: tuple[tuple[str, ...], str]
) -> object:
    """Until it is over, both pools withhold the pages that it uses; what storage is asked for uses none of the host."""
    kinds, event = case
    works = []
    for number, kind in enumerate(kinds):
        copy = kind in ("load", "backup")
        pages = [run.numbers_named(f"{side}{number}of", count, 0) for side, count in (("device", copy), ("host", 2))]
        pages[1] = distinct(pages[1])
        made = SimpleNamespace(id=number, kind=kind, device_pages=pages[0], host_pages=pages[1])
        made.ticket = made if copy else None
        works.append(made)
    over = {work.id: run.whether(f"over{work.id}") for work in works}
    module = late_of(source, time=None, np=Lists, wait_over=lambda ticket, seconds: over[ticket.id] and not seconds)
    late, pools = module.LateWork(), (WithholdingPool(), WithholdingPool())
    late.works.update({work.id: work for work in works})
    late.withhold(*pools)
    left, others = list(works), []
    if event == "look":
        late.look()
        left = [work for work in works if work.ticket is None or not over[work.id]]
    elif event == "others":
        stranger = SimpleNamespace(id=9)
        given = [*works, stranger, stranger]
        reports = [SimpleNamespace(work=work, over=over.get(work.id, run.whether("stranger"))) for work in given]
        others = late.others(reports)
        left = [work for work in works if not over[work.id]]
        if others != reports[-2:]:
            return False
    page = run.number("page", 0)
    device = [page == one for work in left for one in work.device_pages]
    host = [page == one for work in left for one in work.host_pages if work.kind != "query"]
    said = [[page == one for one in pool.withheld] for pool in pools]
    same = list(late.works.values()) == left
    return every([same, alike(some(said[0]), some(device)), alike(some(said[1]), some(host))])


PAGES = 3
"""Pages of a small pool, besides the reserved one."""

HOMES = ("free", "used", "withheld")


def named(pages: Iterable[int]) -> list[PageNo]:
    """As the spec names pages."""
    return [PageNo(page) for page in pages]


@proof(
    "POOL-12",
    "POOL-04",
    bounds="pools of three pages: each free, used or withheld, and to be withheld or not; any order of the free list",
    slips=[
        Slip(POOL, "left = free[~np.isin(free, more)]", "left = free[np.isin(free, more)]"),
        Slip(POOL, "back = np.setdiff1d(self.withheld, pages)", "back = self.withheld"),
        Slip(POOL, "            self.state[more] = USED\n", ""),
        Slip(POOL, "            self.free_count = len(left)\n", ""),
        Slip(POOL, "        self.withheld = pages\n", "        self.withheld = more\n"),
    ],
)
def what_is_withheld_is_nobodys(source: Source, run: Run, case: None) -> object:
    """Not free, and not anybody's; what is withheld no longer is free, and everything else is as it was.

    Page numbers are only compared here, so these stand for any.
    """
    module = source.module(POOL)
    everyone = range(1, PAGES + 1)
    for homes in product(HOMES, repeat=PAGES):
        free, used, before = [[page for page in everyone if homes[page - 1] == home] for home in HOMES]
        for stack in permutations(free):
            for chosen in product((False, True), repeat=len(free) + len(before)):
                wanted = [page for page, one in zip(sorted([*free, *before]), chosen, strict=True) if one]
                pool = module.PagePool(PAGES, 1, 1)
                pool.stack[: len(stack)] = stack
                pool.free_count = len(stack)
                pool.state[list(used) + before] = module.USED
                pool.withheld = np.array(before, np.int32)
                pool.withhold(np.array(wanted, np.int32))
                left = [page for page in stack if page not in wanted]
                now = pool.stack[: pool.free_count].tolist()
                states = [int(pool.state[page]) == module.FREE for page in everyone]
                homes_now = [named(one) for one in (now, used, pool.withheld.tolist())]
                if now[: len(left)] != left or set(now[len(left) :]) != set(before) - set(wanted):
                    return False
                if states != [page in now for page in everyone] or homes_now[2] != wanted:
                    return False
                if not one_home(frozenset(named(everyone)), homes_now):
                    return False
    return True
