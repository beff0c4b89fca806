"""A slip in a shared effect would be shared by the judge and the reference: something else must notice each.

The judge, the reference and the proofs fold the same effects (``spec/effects.py``).  So each effect is given slips
here, one at a time, and it is shown what notices: the specimen, which shares none of them, under the judge or in lock
step with the reference; or a law that is stated here once more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest

from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import Op, draw, table
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec import effects
from kvlitmus.spec.names import Names
from kvlitmus.spec.state import Page, Tree
from kvlitmus.spec.units import Name, PageNo, Slot, Tick
from tests.support.lockstep import lockstep

SEEDS = range(6)
CONFIGS = (
    *(Config(page_size=2, pages=8, policy=policy) for policy in ("lru", "lfu", "priority")),
    Config(page_size=1, pages=12, policy="fifo"),
)


@cache
def schedules(target: SpecimenTarget, config: Config, depth: int) -> list[Sequence[Op]]:
    """Schedules of what a target and the reference both can do."""
    checker = Checker(target.make(config), config, target.profile, depth=depth)
    other = Checker(ReferenceTarget(target.profile).make(config), config, target.profile, depth=depth)
    kinds = [kind for kind in table(checker.capabilities & other.capabilities) if kind in Interpreter(checker).actions]
    return [draw(seed, 150, tuple(kinds)) for seed in SEEDS]


def judged(target: SpecimenTarget, depth: int, configs: Iterable[Config] = CONFIGS) -> None:
    """Play on a target under the judge."""
    for config in configs:
        for ops in schedules(target, config, depth):
            checker = Checker(target.make(config), config, target.profile, depth=depth, names=Names())
            Interpreter(checker).play(ops)


def specimen() -> None:
    """The rules, on the specimen, which keeps its own counts."""
    judged(SpecimenTarget(), 3)


def renewing() -> None:
    """The rules, on a legal cache whose splits renew the time of creation."""
    judged(all_mutants()["split-renews"].target, 3)


def blind() -> None:
    """The rules, on the specimen, when evictions are not seen."""
    judged(SpecimenTarget(), 1)


def lock_step() -> None:
    """The specimen beside the reference: the same nodes, the same victims, page by page and node by node."""
    for config in CONFIGS:
        for ops in schedules(SpecimenTarget(), config, 3):
            lockstep(SpecimenTarget(), ReferenceTarget(PROFILE), config, ops)


def chain(*names: int, at: int = 10) -> Tree:
    """One node of these pages, in order, below the root 0; page ``n`` is in page ``n + at`` of the pool."""
    pages = {
        Name(name): Page(Name(above), PageNo(name + at), Tick(1), Tick(1), 0, 0, 0, not above)
        for above, name in zip((0, *names), names, strict=False)
    }
    return Tree(pages, Tick(1))


def law_of_moves() -> None:
    """What is moved is there and as it was else; what isn't moved stays."""
    tree = chain(1, 2, 3)
    moved = effects.move(tree, {Name(2): PageNo(7)})
    assert [page.page for page in moved.pages.values()] == [11, 7, 13]
    assert [page._replace(page=PageNo(0)) for page in moved.pages.values()] == [
        page._replace(page=PageNo(0)) for page in tree.pages.values()
    ]
    assert moved.clock == tree.clock


def law_of_nodes() -> None:
    """Every page is in one node; a node is a path; it ends before a page that begins one, or where paths part."""
    tree = effects.split(chain(1, 2, 3), Name(1))
    assert effects.nodes(tree) == [((1,), 0), ((2, 3), 1)]
    assert effects.node_of(tree, Name(3)) == (3, 2)
    tree = effects.place(tree, Name(1), [Name(4), Name(5)], [PageNo(1), PageNo(2)])
    assert sorted(effects.nodes(tree)) == [((1,), 0), ((2, 3), 1), ((4, 5), 1)]
    assert sorted(effects.leaves(tree)) == [3, 5]
    assert effects.path(tree, Name(5)) == (1, 4, 5)
    assert effects.below(tree, [Name(4)]) == {4, 5} and effects.below(tree, [Name(1)]) == {1, 2, 3, 4, 5}


NOTICES: dict[str, Callable[[], None]] = {
    "the specimen": specimen,
    "the specimen that renews": renewing,
    "the specimen, unseen": blind,
    "lock step": lock_step,
    "the law of moves": law_of_moves,
    "the law of nodes": law_of_nodes,
}


class Slip(NamedTuple):
    """A slip in an effect: ``wrong`` gets the right function and returns the wrong one; ``by``: what notices."""

    effect: str
    what: str
    by: str
    wrong: Callable[[Any], Any]


def changed(**fields: Any) -> Callable[[Any], Any]:
    """The effect's tree with other values in the pages that it changed."""

    def wrong(right: Any) -> Any:
        def slipped(tree: Tree, *args: Any, **options: Any) -> Tree:
            after: Tree = right(tree, *args, **options)
            pages = {
                name: page if tree.pages.get(name) == page else page._replace(**fields)
                for name, page in after.pages.items()
            }
            return Tree(pages, after.clock)

        return slipped

    return wrong


def nothing(right: Any) -> Any:
    """The effect has no effect."""
    return lambda value, *args, **options: value


def without(**given: Any) -> Callable[[Any], Any]:
    """An option is overlooked."""
    return lambda right: lambda *args, **options: right(*args, **{**options, **given})


def first_only(right: Any) -> Any:
    """Of several pages only the first."""
    return lambda value, several: right(value, list(several)[:1])


def still(right: Any) -> Any:
    """No time passes."""
    return lambda tree, *args, **options: right(tree, *args, **options)._replace(clock=tree.clock)


def side_by_side(right: Any) -> Any:
    """All pages of a new node hang below the same one."""

    def slipped(tree: Tree, parent: Name, names: Sequence[Name], *args: Any, **options: Any) -> Tree:
        after: Tree = right(tree, parent, names, *args, **options)
        hung = {name: after.pages[name]._replace(parent=parent) for name in names}
        return Tree({**after.pages, **hung}, after.clock)

    return slipped


def replacing(right: Any) -> Any:
    """The pages that were offered take the place of those that were cached."""

    def slipped(tree: Tree, root: Name, names: Sequence[Name], offered: Sequence[PageNo], **options: Any) -> Any:
        after, already = right(tree, root, names, offered, **options)
        return effects.move(after, dict(zip(names, offered, strict=False))), already

    return slipped


def one_short(right: Any) -> Any:
    """The last page of a key isn't cached."""
    return lambda tree, root, names, offered, **options: right(
        tree, root, names[:-1], offered[: max(0, len(names) - 1)], **options
    )


def page_alone(right: Any) -> Any:
    """The pages above stay as they are."""

    def slipped(tree: Tree, name: Name, by: int = 1) -> Tree:
        pages = dict(tree.pages)
        if name in pages:
            pages[name] = pages[name]._replace(locks=pages[name].locks + by)
        return Tree(pages, tree.clock)

    return slipped


def one_less(right: Any) -> Any:
    """A prefix is a page shorter than it is."""
    return lambda tree, names: max(0, right(tree, names) - 1)


def all_but_last(right: Any) -> Any:
    """A path ends too early."""
    return lambda tree, name: right(tree, name)[:-1]


def never_back(right: Any) -> Any:
    """Giving a lock back takes one more."""
    return lambda tree, name, by=1: right(tree, name, abs(by))


def one_off(right: Any) -> Any:
    """The slot behind is written."""
    return lambda contents, slots, names: right(contents, [Slot(slot + 1) for slot in slots], names)


def pages_as_nodes(right: Any) -> Any:
    """Every page is a node."""
    return lambda tree: [((name,), page.parent) for name, page in tree.pages.items()]


SLIPS = (
    Slip("touch", "nothing is used", "the specimen", nothing),
    Slip("touch", "hits are not counted", "the specimen", without(hits=0)),
    Slip("touch", "every use is a hit", "the specimen", without(hits=1)),
    Slip("touch", "priority is forgotten", "the specimen", without(priority=None)),
    Slip("touch", "the clock stands still", "the specimen", still),
    Slip("split", "no node ends", "lock step", nothing),
    Slip("split", "splits never renew", "the specimen that renews", without(renews=False)),
    Slip("split", "splits always renew", "the specimen", without(renews=True)),
    Slip("place", "nothing is cached", "lock step", nothing),
    Slip("place", "new pages are locked", "the specimen", changed(locks=1)),
    Slip("place", "new pages are old", "the specimen", changed(created=Tick(0), touched=Tick(0))),
    Slip("place", "new pages have no hits", "the specimen", without(hits=0)),
    Slip("place", "each page is a node", "lock step", changed(first=True)),
    Slip("place", "all pages hang below the same one", "the specimen", side_by_side),
    Slip("insert", "existing pages lose", "the specimen", replacing),
    Slip("insert", "chunks are uses", "the specimen", without(counts=True)),
    Slip("insert", "priority is forgotten", "the specimen", without(priority=0)),
    Slip("insert", "the last page is left out", "lock step", one_short),
    Slip("remove", "nothing goes", "lock step", nothing),
    Slip("remove", "what is unseen never goes", "the specimen, unseen", nothing),
    Slip("move", "nothing moves", "the law of moves", nothing),
    Slip("move", "what moves is forgotten", "the law of moves", changed(locks=9)),
    Slip("lock", "nothing is locked", "the specimen", nothing),
    Slip("lock", "locks count twice", "the specimen", lambda right: lambda tree, name, by=1: right(tree, name, 2 * by)),
    Slip("lock", "a lock is never given back", "the specimen", never_back),
    Slip("lock", "parents are not locked", "the specimen", page_alone),
    Slip("take", "nothing is owned", "the specimen", nothing),
    Slip("take", "only the first page is owned", "the specimen", first_only),
    Slip("release", "nothing is given back", "the specimen", nothing),
    Slip("release", "only the first page is given back", "the specimen", first_only),
    Slip("write", "nothing is written", "the specimen", nothing),
    Slip("write", "one slot off", "the specimen", one_off),
    Slip("cached_prefix", "one page is overlooked", "the specimen", one_less),
    Slip("path", "the last page is missing", "the law of nodes", all_but_last),
    Slip("leaves", "every page is a leaf", "lock step", lambda right: lambda tree: list(tree.pages)),
    Slip("node_of", "a node is a page", "the law of nodes", lambda right: lambda tree, leaf: (leaf,)),
    Slip("nodes", "a node is a page", "the law of nodes", pages_as_nodes),
    Slip("below", "children stay", "the law of nodes", lambda right: lambda tree, names: set(names)),
)  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: f"{slip.effect}-{slip.what.replace(' ', '-')}")
def test_a_slip_in_an_effect_is_noticed(slip: Slip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, slip.effect, slip.wrong(getattr(effects, slip.effect)))
    with pytest.raises((Violation, AssertionError)) as caught:
        NOTICES[slip.by]()
    print(f"{slip.effect}: {slip.what}: {caught.value!r:.200}")


@pytest.mark.parametrize("name", NOTICES)
def test_without_a_slip_nothing_is_noticed(name: str) -> None:
    NOTICES[name]()


def test_every_effect_has_a_slip_and_its_noticer_is_named() -> None:
    public = {
        name for name, one in vars(effects).items() if inspect.isfunction(one) and one.__module__ == effects.__name__
    }
    assert {slip.effect for slip in SLIPS} == public
    for name in public:
        assert f"``{name}``" in (effects.__doc__ or ""), name
