"""The interface of a cache that several ranks hold together: what is judged is that they decide alike.

Each **rank** holds its shard of every page, and a tree of its own.  All ranks of a tree get equal calls, in one order;
copies, reads and clocks are each rank's own.  So that the trees stay equal, ranks exchange numbers before they decide:
by a **collective** of a group, or by a message from one pipeline stage to the next.

A cache is asked for with ``Config(pool="ranks")``.  A call on a rank is a **generator**: it yields what the rank enters,
is resumed with what came out of it, and returns what the rank decided.  So the suite runs all ranks in one thread, in any
order, and a collective that not all members enter is seen at once instead of waited for.

A prefix is the tuple of its pages, each of them a number; ``()`` is the root.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, Protocol

Prefix = tuple[int, ...]
"""A prefix by its pages; a page is named by the prefix that ends with it."""


class Group(NamedTuple):
    """A group of ranks that can reduce together: along which dimension of parallelism (``tp``, ``cp``, ``attn``), and who."""

    kind: str
    members: tuple[int, ...]


class World(NamedTuple):
    """Who is there, and what each has.

    ``trees``: for each tree, its pipeline stages, each a tuple of ranks.  All ranks of a tree get the same calls, and
    no others do.  ``groups``: all groups of reduction, also those of one rank and those that span several trees.
    ``pages``, ``host_pages``: what each rank has on its device and on its host.  ``window``: so many pages before a
    boundary must have state of the component *window*, for which there is room for ``window_pages``; 0 where the cache
    has no such component.  ``stop``: the stop policy of prefetches; ``limit``: under ``timeout`` a prefetch
    need not be waited for when more than so many seconds have gone by.  ``state_slots``: there is room for so many entries of
    the component *state* on each host, each a recurrent state of one boundary; 0 where the cache has no such component.
    More than 0 is asked only of a cache that has the port ``rank_states``.
    """

    name: str
    groups: tuple[Group, ...]
    trees: tuple[tuple[tuple[int, ...], ...], ...]
    pages: int = 8
    host_pages: int = 8
    window: int = 2
    window_pages: int = 4
    stop: str = "wait_complete"
    limit: int = 4
    state_slots: int = 0

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks."""
        return tuple([rank for tree in self.trees for stage in tree for rank in stage])

    def tree(self, number: int) -> tuple[int, ...]:
        """The ranks of one tree, stage by stage."""
        return tuple([rank for stage in self.trees[number] for rank in stage])

    def stages(self, rank: int) -> tuple[tuple[int, ...], ...]:
        """The pipeline stages of the tree that this rank is of."""
        return next(tree for tree in self.trees if any(rank in stage for stage in tree))

    def dimensions(self, rank: int) -> tuple[Group, ...]:
        """The groups, of more than this rank, that share its tree and its stage, in declared order."""
        stage = next(one for one in self.stages(rank) if rank in one)
        mine = [group for group in self.groups if rank in group.members and len(group.members) > 1]
        return tuple(group for group in mine if set(group.members) <= set(stage))


def worlds(**sizes: int | str) -> dict[str, World]:
    """The shapes in which ranks are judged, by name, with other sizes where they are given."""
    two, four = (0, 1), (0, 1, 2, 3)
    lone = (Group("tp", (0,)), Group("tp", (1,)))
    halves = (Group("tp", (0, 1)), Group("tp", (2, 3)))
    plain = (
        World("tp2", (Group("tp", two),), ((two,),)),
        World("tp4", (Group("tp", four),), ((four,),)),
        World("cp2", (*lone, Group("cp", two)), ((two,),)),
        World("tp2cp2", (*halves, Group("cp", (0, 2)), Group("cp", (1, 3))), ((four,),)),
        World("attn2", (Group("tp", four), Group("attn", two), Group("attn", (2, 3))), ((two,), ((2, 3),))),
        World("pp2", lone, (((0,), (1,)),)),
        World("tp2pp2", halves, ((two, (2, 3)),)),
    )
    return {world.name: world._replace(**sizes) for world in plain}  # type: ignore[arg-type]


ASKS = ("match", "insert", "evict", "acks", "prefetch", "hit", "poll", "load", "abort", "rejoin")
"""What all ranks of a tree are asked alike."""


class Ask(NamedTuple):
    """One call, made on every rank of a tree.

    ``match``: the longest prefix of ``key`` on the device.  ``insert``: cache ``key``, and begin to copy its pages to
    the host.  ``evict``: free ``pages`` pages of the device.  ``acks``: note the copies that have ended.  ``prefetch``:
    begin to read ``key`` from storage for request ``rid``; ``hit``: note how much of it storage has; ``poll``: end it
    where the stop policy lets it, and cache what was read: only so does a state come to a rank.  ``load``: begin to copy
    ``key`` from host to device.
    ``abort``: the request is gone, and its number may come again, for another prefetch.  ``rejoin``: after a rank was lost and is back, go on together.
    """

    what: str
    key: Prefix = ()
    rid: int = 0
    pages: int = 0


LOCALS = ("wrote", "loaded", "found", "read", "failed", "clock", "pinch", "attach", "die", "restart")
"""What happens to one rank alone."""


class Local(NamedTuple):
    """Something that happens to one rank alone, between calls.

    ``wrote``, ``loaded``: its copy of the page ``key`` to the host, or from there, has ended.  ``found``: its storage
    has answered for ``rid``: prefixes of that many pages (``boundaries``), counted from the first page that was granted,
    can be restored; where there are states, those that ``states`` names as well: a state is stored for prefixes of that many
    pages.  ``read``: it has read ``pages`` pages of ``rid`` by now, ``window`` pages of the window, and the state, if ``state``
    is 1: that of the last page that storage has.  ``failed``: its reading has ended early.  ``clock``: its clock shows
    ``pages`` seconds.  ``pinch``: others occupy ``pages`` pages of its host, and ``state`` of its entries for states.
    ``attach``: storage is attached there (``pages`` 1) or not (0).  ``die``: it is gone; ``restart``: it is back, empty.
    """

    rank: int
    what: str
    key: Prefix = ()
    rid: int = 0
    pages: int = 0
    window: int = 0
    boundaries: tuple[int, ...] = ()
    state: int = 0
    states: tuple[int, ...] = ()


class Collective(NamedTuple):
    """A rank enters a collective of a group.

    ``op``: ``min``, ``max``, ``sum`` or ``barrier``.  ``layout``: what each value is about.  The rank is resumed with the
    reduced values.
    """

    group: Group
    op: str
    layout: tuple[str, ...] = ()
    values: tuple[int, ...] = ()


class Send(NamedTuple):
    """A rank sends values to another one; it is resumed at once, with no values."""

    to: int
    layout: tuple[str, ...]
    values: tuple[int, ...]


class Receive(NamedTuple):
    """A rank waits for what another one sends; it is resumed with the values."""

    source: int


class Await(NamedTuple):
    """A rank waits for copies of its own, ``wrote`` or ``loaded``; when it is resumed, with no values, they have ended."""

    what: str
    pages: tuple[Prefix, ...]


Exchange = Collective | Send | Receive | Await
"""What a rank may yield."""


class Decision(NamedTuple):
    """What a rank decided, in prefixes, never in slots, which are its own.

    ``kind``: ``match`` (what was found: one prefix, the longest), ``grant`` (what memory was taken for), ``victims`` (what went, in order),
    ``commit`` (what is cached now) or ``ack`` (which copies count as ended).  ``of``: of which tier, kind of copy or
    component: ``device``, ``host``, ``write``, ``load``, ``read``, ``hit``, ``kv``, ``window``, ``state``, ``reset``.

    Where there are states, a prefetch that takes pages grants one (``grant``, ``state``) and names the boundary that it is for;
    so does ``hit``, where storage has something; a commit names the boundary that has one now, also if it had one before.
    """

    kind: str
    of: str
    prefixes: tuple[Prefix, ...]


class StatesView(NamedTuple):
    """A look at the states of one rank.

    ``cached``: the boundaries that have one, in the order of the cache.  ``held``: for each entry that a prefetch has memory
    for, its request and the boundary that the state is for.  ``free``: entries that are free; others may occupy some of them.
    """

    cached: tuple[Prefix, ...]
    held: tuple[tuple[int, Prefix], ...]
    free: int


class RankView(NamedTuple):
    """A look at one rank.

    ``device``, ``host``: the pages there, the least recently used first.  ``writing``, ``loading``: the copies that are
    under way or not yet noted, in the order in which they began; where a page counts as cached as soon as its copy begins,
    it is on its tier and not here.  ``reading``: for each prefetch its request, the pages
    that it holds host memory for, and how many pages of the window; under a negative number what waits to be given back.  ``window``: the boundaries with a window.
    ``device_free``, ``host_free``, ``window_free``: pages that are free; others may occupy some of them.  ``states``: what
    the port ``rank_states`` shows, put here by the suite; a cache leaves it out.
    """

    device: tuple[Prefix, ...]
    host: tuple[Prefix, ...]
    writing: tuple[Prefix, ...]
    loading: tuple[Prefix, ...]
    reading: tuple[tuple[int, tuple[Prefix, ...], int], ...]
    window: tuple[Prefix, ...]
    device_free: int
    host_free: int
    window_free: int
    states: StatesView | None = None


class GroupLost(Exception):
    """A collective or a message can't end, since a rank is gone.  A rank that lets it through has changed nothing."""


Turns = Generator[Exchange, tuple[int, ...], Sequence[Decision]]
"""A call on one rank."""


class Ranks(Protocol):
    """Several ranks."""

    def ranks_start(self, world: World) -> None:
        """Begin anew with these ranks, empty, storage attached on each.

        Raises ``NotImplementedError`` for a shape that this cache doesn't have.
        """

    def ranks_ask(self, rank: int, ask: Ask) -> Turns:
        """Make a call on one rank: a generator that yields what the rank enters, and returns what it decided.

        Every rank raises ``NotImplementedError``, before it enters anything and always, for a call that this cache doesn't
        have: one without prefetches for ``prefetch``, ``hit``, ``poll`` and ``abort``, one without loads back for ``load``.
        """

    def ranks_local(self, event: Local) -> Sequence[Prefix] | None:
        """Have something happen to one rank.

        Of ``wrote`` and ``loaded`` the answer is which pages' copies have ended, where one operation copies several; else
        ``None``.  Raises ``NotImplementedError`` for what can't happen there: ``die`` where ranks can't be lost, ``attach``
        where storage doesn't come and go, an
        answer of storage with gaps where any prefix of what can be restored can be restored too, a copy or a read that
        ends before those that began earlier where one queue has them all.
        """


class RanksView(Protocol):
    """A look at each rank."""

    def ranks_view(self, rank: int) -> RankView | None:
        """What this rank has now; ``None`` while a call on it has not ended, and nobody can look."""


class RanksStates(Protocol):
    """Ranks that keep states, too: worlds with ``state_slots`` are asked of them, as well as worlds without."""

    def ranks_states(self, rank: int) -> StatesView | None:
        """What this rank has of states; ``None`` while a call on it has not ended.  Nobody looks where the world has none."""


RANK_PORTS: dict[str, tuple[str, ...]] = {
    "ranks": ("ranks_start", "ranks_ask", "ranks_local"),
    "ranks_view": ("ranks_view",),
}
"""Those of several ranks: capability → the methods that make it up."""

RANK_STATE_PORTS: dict[str, tuple[str, ...]] = {"rank_states": ("ranks_states",)}
"""That of several ranks with states: a table of its own, since ranks of a cache of KV alone don't have it."""
