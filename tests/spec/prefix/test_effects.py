"""A bug in a shared effect would be shared by the judge and the reference: something else must notice each.

The judge, the reference and the proofs fold the same effects (``spec/prefix/effects.py``).  So each effect is given
mutants here, one at a time, and it is shown what notices: the specimen, which shares none of them, under the judge or
in lock step with the reference; or a law that is stated here once more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import Op, draw, table
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.state import Page, Tier
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tick
from tests.support.configs import TIER_POLICY_CONFIGS
from tests.support.lockstep import kinds_of, lockstep
from tests.support.mutants import Change, Patched, assert_killed, fails, found_at
from tests.support.night import by_turns

SEEDS = range(3)
CONFIGS = (
    *(Config(page_size=2, pages=8, policy=policy) for policy in ("lru", "lfu", "priority")),
    Config(page_size=1, pages=12, policy="fifo"),
)


@cache
def schedules(target: SpecimenTarget, config: Config, depth: int, seeds: Sequence[int]) -> list[Sequence[Op]]:
    """Schedules of what a target and the reference both can do."""
    checker = Checker(target.make(config), config, target.profile, depth=depth)
    other = Checker(ReferenceTarget(target.profile).make(config), config, target.profile, depth=depth)
    kinds = [kind for kind in table(checker.capabilities & other.capabilities) if kind in Interpreter(checker).actions]
    return [draw(seed, 150, tuple(kinds)) for seed in seeds]


def judged(
    target: SpecimenTarget, depth: int, configs: Iterable[Config] = CONFIGS, seeds: Sequence[int] = SEEDS
) -> None:
    """Play on a target under the judge."""
    for config in configs:
        for ops in schedules(target, config, depth, seeds):
            checker = Checker(target.make(config), config, target.profile, depth=depth, names=Names())
            Interpreter(checker).play(ops)


def specimen() -> None:
    """The rules, on the specimen, which keeps its own counts."""
    judged(SpecimenTarget(), 3, seeds=range(5))


def renewing() -> None:
    """The rules, on a legal cache whose splits renew the time of creation; what is older goes first, of many nodes."""
    judged(all_mutants()["split-renews"].target, 3, (*CONFIGS, Config(page_size=1, policy="fifo")), range(10))


def blind() -> None:
    """The rules, on the specimen, when evictions are not seen."""
    judged(SpecimenTarget(), 1)


def lock_step() -> None:
    """The specimen beside the reference: the same nodes, the same victims, page by page and node by node."""
    for config in CONFIGS:
        for ops in schedules(SpecimenTarget(), config, 3, SEEDS):
            lockstep(SpecimenTarget(), ReferenceTarget(PROFILE), config, ops)


def below() -> None:
    """The specimen's hierarchy beside the reference's: what lives on through the tiers, and is worth there."""
    for config in TIER_POLICY_CONFIGS:
        kinds = kinds_of(SpecimenTarget(), ReferenceTarget(PROFILE), config)
        for seed in range(3):
            lockstep(SpecimenTarget(), ReferenceTarget(PROFILE), config, draw(seed, 250, kinds))


def chain(*names: int, at: int = 10) -> Tier:
    """One node of these pages, in order, below the root 0; page ``n`` is in page ``n + at`` of the pool."""
    pages = {
        Name(name): Page(Name(above), PageNo(name + at), Tick(1), Tick(1), 0, 0, 0, not above)
        for above, name in zip((0, *names), names, strict=False)
    }
    return Tier(pages, Tick(1))


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
    later = chain(1, 2, 3)._replace(clock=Tick(5))
    assert effects.split(later, Name(1)).pages[Name(1)].created == Tick(1)
    assert effects.split(later, Name(1), renews=True).pages[Name(1)].created == Tick(5)
    tree = effects.split(chain(1, 2, 3), Name(1))
    assert effects.nodes(tree) == [((1,), 0), ((2, 3), 1)]
    assert effects.node_of(tree, Name(3)) == (3, 2)
    assert [effects.whole_nodes(tree, [Name(1), Name(2), Name(3)][:many]) for many in range(4)] == [0, 1, 1, 3]
    tree = effects.place(tree, Name(1), [Name(4), Name(5)], [PageNo(1), PageNo(2)])
    assert sorted(effects.nodes(tree)) == [((1,), 0), ((2, 3), 1), ((4, 5), 1)]
    assert sorted(effects.leaves(tree)) == [3, 5]
    assert effects.path(tree, Name(5)) == (1, 4, 5)
    assert effects.below(tree, [Name(4)]) == {4, 5} and effects.below(tree, [Name(1)]) == {1, 2, 3, 4, 5}


def law_of_doubt() -> None:
    """Of a page that may have been used nobody knows how recently, until it is used; of others it is known."""
    tree = effects.blur(chain(1, 2, 3), [Name(2), Name(9)])
    assert [name for name, page in tree.pages.items() if page.unsure] == [2] and len(tree.pages) == 3
    assert tree.pages[Name(2)]._replace(unsure=False) == chain(1, 2, 3).pages[Name(2)]
    assert effects.lock(tree, Name(3)).pages[Name(2)].unsure
    assert not effects.touch(tree, [Name(2)]).pages[Name(2)].unsure


NOTICES: dict[str, Callable[[], None]] = {
    "the specimen": specimen,
    "the specimen that renews": renewing,
    "the specimen, unseen": blind,
    "lock step": lock_step,
    "lock step below": below,
    "the law of moves": law_of_moves,
    "the law of nodes": law_of_nodes,
    "the law of doubt": law_of_doubt,
}


def mutant(effect: str, what: str, by: str, change: Change) -> Patched:
    """A mutant of an effect: what is wrong, and what notices it."""
    patches = {f"{effects.__name__}:{effect}": change}
    return Patched(id=f"{effect}: {what}", recipe=what, kills=(by,), patches=patches)


def changed(**fields: Any) -> Change:
    """The effect's tree with other values in the pages that it changed."""

    def wrong(right: Any) -> Any:
        def mutated(tree: Tier, *args: Any, **options: Any) -> Tier:
            after: Tier = right(tree, *args, **options)
            pages = {
                name: page if tree.pages.get(name) == page else page._replace(**fields)
                for name, page in after.pages.items()
            }
            return Tier(pages, after.clock, after.doubt)

        return mutated

    return wrong


def nothing(right: Any) -> Any:
    """The effect has no effect."""
    return lambda value, *args, **options: value


def without(**given: Any) -> Change:
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

    def mutated(tree: Tier, parent: Name, names: Sequence[Name], *args: Any, **options: Any) -> Tier:
        after: Tier = right(tree, parent, names, *args, **options)
        hung = {name: after.pages[name]._replace(parent=parent) for name in names}
        return Tier({**after.pages, **hung}, after.clock, after.doubt)

    return mutated


def replacing(right: Any) -> Any:
    """The pages that were offered take the place of those that were cached."""

    def mutated(tree: Tier, root: Name, names: Sequence[Name], offered: Sequence[PageNo], **options: Any) -> Any:
        after, already = right(tree, root, names, offered, **options)
        return effects.move(after, dict(zip(names, offered, strict=False))), already

    return mutated


def one_short(right: Any) -> Any:
    """The last page of a key isn't cached."""
    return lambda tree, root, names, offered, **options: right(
        tree, root, names[:-1], offered[: max(0, len(names) - 1)], **options
    )


def page_alone(right: Any) -> Any:
    """The pages above stay as they are."""

    def mutated(tree: Tier, name: Name, by: int = 1) -> Tier:
        pages = dict(tree.pages)
        if name in pages:
            pages[name] = pages[name]._replace(locks=pages[name].locks + by)
        return Tier(pages, tree.clock, tree.doubt)

    return mutated


def one_less(right: Any) -> Any:
    """A prefix is a page shorter than it is."""
    return lambda tree, names: max(0, right(tree, names) - 1)


def all_but_last(right: Any) -> Any:
    """A path ends too early."""
    return lambda tree, name: right(tree, name)[:-1]


def twice(right: Any) -> Any:
    """Each lock counts for two."""
    return lambda tree, name, by=1: right(tree, name, 2 * by)


def known_wrong(**fields: Any) -> Change:
    """What is known of pages that change tiers is not what it was."""

    def wrong(right: Any) -> Any:
        def mutated(device: Tier, host: Tier, names: Any, **options: Any) -> Any:
            tiers = right(device, host, names, **options)
            known = [{name: one.pages[name]._replace(**fields) for name in names if name in one.pages} for one in tiers]
            return tuple(one._replace(pages={**one.pages, **pages}) for one, pages in zip(tiers, known, strict=True))

        return mutated

    return wrong


def on_none(right: Any) -> Any:
    """What leaves the device is forgotten."""
    return lambda device, host, names: (right(device, host, names)[0], host)


def never_back(right: Any) -> Any:
    """Giving a lock back takes one more."""
    return lambda tree, name, by=1: right(tree, name, abs(by))


def one_off(right: Any) -> Any:
    """The slot behind is written."""
    return lambda contents, slots, names: right(contents, [Slot(slot + 1) for slot in slots], names)


def pages_as_nodes(right: Any) -> Any:
    """Every page is a node."""
    return lambda tree: [((name,), page.parent) for name, page in tree.pages.items()]


MUTANTS = (
    mutant("touch", "nothing is used", "the specimen", nothing),
    mutant("touch", "hits are not counted", "the specimen", without(hits=0)),
    mutant("touch", "every use is a hit", "the specimen", without(hits=1)),
    mutant("touch", "priority is forgotten", "the specimen", without(priority=None)),
    mutant("touch", "the clock stands still", "the specimen", still),
    mutant("split", "no node ends", "lock step", nothing),
    mutant("split", "splits never renew", "the specimen that renews", without(renews=False)),
    mutant("split", "splits always renew", "the law of nodes", without(renews=True)),
    mutant("place", "nothing is cached", "lock step", nothing),
    mutant("place", "new pages are locked", "the specimen", changed(locks=1)),
    mutant("place", "new pages are old", "the specimen", changed(created=Tick(0), touched=Tick(0))),
    mutant("place", "new pages have no hits", "the specimen", without(hits=0)),
    mutant("place", "each page is a node", "lock step", changed(first=True)),
    mutant("place", "all pages hang below the same one", "the specimen", side_by_side),
    mutant("insert", "existing pages lose", "the specimen", replacing),
    mutant("insert", "chunks are uses", "the specimen", without(counts=True)),
    mutant("insert", "priority is forgotten", "the specimen", without(priority=0)),
    mutant("insert", "the last page is left out", "lock step", one_short),
    mutant("remove", "nothing goes", "lock step", nothing),
    mutant("remove", "what is unseen never goes", "the specimen, unseen", nothing),
    mutant("move", "nothing moves", "the law of moves", nothing),
    mutant("move", "what moves is forgotten", "the law of moves", changed(locks=9)),
    mutant("demote", "what leaves is forgotten", "lock step below", on_none),
    mutant("demote", "what leaves loses its hits", "lock step below", known_wrong(hits=0)),
    mutant("demote", "what leaves is old", "lock step below", known_wrong(touched=Tick(0))),
    mutant("demote", "each page is a node", "lock step below", known_wrong(first=True)),
    mutant("promote", "what comes back is new", "lock step below", known_wrong(created=Tick(10**6))),
    mutant("promote", "what comes back has no priority", "lock step below", known_wrong(priority=0)),
    mutant("promote", "coming back always counts", "lock step below", without(counts=True)),
    mutant("touch", "what is below is used later", "lock step below", without(now=None)),
    mutant("blur", "nothing is doubted", "the law of doubt", nothing),
    mutant("lock", "nothing is locked", "the specimen", nothing),
    mutant("lock", "locks count twice", "the specimen", twice),
    mutant("lock", "a lock is never given back", "the specimen", never_back),
    mutant("lock", "parents are not locked", "the specimen", page_alone),
    mutant("take", "nothing is owned", "the specimen", nothing),
    mutant("take", "only the first page is owned", "the specimen", first_only),
    mutant("release", "nothing is given back", "the specimen", nothing),
    mutant("release", "only the first page is given back", "the specimen", first_only),
    mutant("write", "nothing is written", "the specimen", nothing),
    mutant("write", "one slot off", "the specimen", one_off),
    mutant("cached_prefix", "one page is overlooked", "the specimen", one_less),
    mutant("path", "the last page is missing", "the law of nodes", all_but_last),
    mutant("leaves", "every page is a leaf", "lock step", lambda right: lambda tree: list(tree.pages)),
    mutant("node_of", "a node is a page", "the law of nodes", lambda right: lambda tree, leaf: (leaf,)),
    mutant("whole_nodes", "a node is a page", "the law of nodes", lambda right: lambda tree, names: len(names)),
    mutant("nodes", "a node is a page", "the law of nodes", pages_as_nodes),
    mutant("below", "children stay", "the law of nodes", lambda right: lambda tree, names: set(names)),
)  # fmt: skip


@pytest.mark.parametrize(
    "one", by_turns(MUTANTS, [one.id.replace(": ", "-").replace(" ", "-") for one in MUTANTS], every=12)
)
def test_a_mutant_of_an_effect_is_noticed(one: Patched) -> None:
    assert_killed(one, *[fails(name, NOTICES[name]) for name in one.kills])


@pytest.mark.parametrize("name", NOTICES)
def test_without_a_mutant_nothing_is_noticed(name: str) -> None:
    NOTICES[name]()


def test_every_effect_has_a_mutant_and_its_noticer_is_named() -> None:
    public = {
        name for name, one in vars(effects).items() if inspect.isfunction(one) and one.__module__ == effects.__name__
    }
    assert {found_at(place)[1] for one in MUTANTS for place in one.patches} == public
    for name in public:
        assert f"``{name}``" in (effects.__doc__ or ""), name
