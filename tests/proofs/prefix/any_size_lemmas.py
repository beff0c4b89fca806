"""What is shown of the calls on a flat cache of any size, the rules that rest on it, and slips that each must find."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import z3

from tests.proofs.prefix.any_hierarchy import MODULES, TIER, TIER_CONTRACTS, Hierarchy, makes_room, pinned_stays
from tests.proofs.prefix.any_size import (
    ADVANCE,
    CHOOSE,
    CONTRACTS,
    EFFECTS,
    INVARIANTS,
    NO_PAGE,
    PERFORM,
    REWRITTEN,
    Cache,
    Case,
    played,
)
from tests.proofs.prefix.flat_calls import CASES
from tests.proofs.prefix.tier_calls import TIER_CASES
from tests.proofs.support.rewriting import Modules
from tests.proofs.support.search import Refuted, explore
from tests.proofs.support.source import Slip
from tests.proofs.support.terms import Formula
from tests.proofs.support.unknown import World, is_in, mapped, whole

SMALL = partial(World, size=4)
"""Where counterexamples are looked for: four names, four pages, four receipts and requests."""

BOUNDS = (
    "trees, pools, receipts and requests of any number; keys and rows of up to 2 whole pages, of one slot or two; "
    "up to 3 pages given back at once, up to 2 victims; no block table, no use by locks"
)


class Lemma(NamedTuple):
    """What is kept; the rules that rest on it; and slips, each with the case of a call in which it must show."""

    rules: tuple[str, ...]
    slips: dict[Slip, str]


def slip(module: str, there: str, slipped: str) -> Slip:
    """A slip."""
    return Slip(module, there, slipped)


EVICTS, EVICTS_HOST = "evict of 1 page, tiered", "evict of 1 page of the host, tiered"

LEMMAS: dict[str, Lemma] = {
    "sound": Lemma(
        ("POOL-04", "POOL-05", "POOL-06", "POOL-12", "POOL-15", "POOL-16", "TREE-05", "TREE-07"),
        {
            slip(
                CHOOSE,
                "setting.usable.difference(state.owners, cached, waiting_in(state))",
                "setting.usable.difference(state.owners, waiting_in(state))",
            ): "alloc of 1 pages",
            slip(CHOOSE, " and set(choice) <= set(free)", ""): "alloc of 1 pages",
            slip(CHOOSE, "if page.parent in gone and name not in gone]", "if False]"): "evict of 1",
            slip(PERFORM, "if page != own and page not in state.owners]", "if False]"): "insert of 1 pages",
            slip(
                PERFORM,
                "        after = after._replace(device=effects.remove(after.device, frozenset(victims)))",
                "        pass",
            ): "begin of 1 page that evicts 1",
            slip(
                ADVANCE,
                "state._replace(device=tree, owners=effects.release(state.owners, adopted), contents=contents)",
                "state._replace(device=tree, contents=contents)",
            ): "insert of 1 pages",
            slip(EFFECTS, "taken[page] = taken.get(page, 0) + 1", "taken[page] = taken.get(page, 0) + 2"): (
                "alloc of 1 pages"
            ),
            slip(EFFECTS, "parent, first = name, False", "first = False"): "insert of 2 pages",
        },
    ),
    "locked": Lemma(
        ("LOCK-01", "EVICT-03"),
        {
            slip(
                CHOOSE, "if name not in tree.pages or tree.pages[name].locks]", "if name not in tree.pages]"
            ): "evict of 1",
        },
    ),
    "balance": Lemma(
        ("LOCK-04", "LOCK-06", "TREE-24"),
        {
            slip(
                ADVANCE,
                "tree = effects.lock(effects.lock(tree, at), running.locked, -1)",
                "tree = effects.lock(tree, at)",
            ): "Publish(None, False) of 2 pages, 1 cached",
            slip(ADVANCE, "device=unlocked(tree, setting, running.locked)", "device=tree"): (
                "End(False, None) of 1 pages, 1 cached"
            ),
            slip(
                ADVANCE,
                "receipts = {number: at for number, at in state.receipts.items() if number != call.receipt}",
                "receipts = state.receipts",
            ): "unlock",
        },
    ),
    "others": Lemma(
        ("REQ-01", "REQ-03", "REQ-11", "POOL-09"),
        {
            slip(ADVANCE, "owners=effects.take(state.owners, opened)", "owners=state.owners"): (
                "grow of 1 pages, 0 cached"
            ),
            slip(EFFECTS, "left.pop(page, None)", "left = {}"): "Free of 1 pages",
        },
    ),
}
"""By the name of what is kept, in ``any_size.INVARIANTS``."""

TIER_BOUNDS = (
    "hierarchies under write-through of any number of pages on each tier; alloc, free, match, lock, unlock, begin, "
    "grow and abort, and each turn of making room on device and host; keys and rows of up to 2 pages of one slot"
)

TIER_LEMMAS: dict[str, Lemma] = {
    "sound on both tiers": Lemma(
        ("POOL-12", "TIER-04", "TREE-05"),
        {
            slip(
                EFFECTS,
                "return remove(device, names), Tier(pages, host.clock, host.doubt)",
                "return remove(device, names), remove(host, names)",
            ): EVICTS,
            slip(TIER, "if run[0] not in state.host.pages:", "if run[0] in state.host.pages:"): EVICTS,
            slip(TIER, "host=effects.remove(host, names), works=works", "works=works"): (EVICTS_HOST),
        },
    ),
    "pinned": Lemma(
        ("TIER-11", "TIER-13"),
        {
            slip(CHOOSE, "not tree.pages[name].locks and name not in spared", "name not in spared"): (EVICTS_HOST),
        },
    ),
}
"""The same of hierarchies; :data:`TIER_BOUNDS` says for which calls."""

KEPT = {**INVARIANTS, "pinned": pinned_stays, "room": makes_room}
BY_NAME = {case.name: case for case in (*CASES, *TIER_CASES)}
assert len(BY_NAME) == len(CASES) + len(TIER_CASES) and LEMMAS.keys() == INVARIANTS.keys()

SOURCE = Modules(REWRITTEN, CONTRACTS)
TIERED_SOURCE = Modules(MODULES, TIER_CONTRACTS)


def source_of(case: Case, planted: Slip | None = None) -> Modules:
    """The source on which a case is played."""
    modules = TIERED_SOURCE if case.kind is Hierarchy else SOURCE
    return modules if planted is None else Modules(modules.wanted, modules.contracts, planted)


def kept(case: Case, modules: Modules, run: World) -> bool:
    """The claim that a call keeps everything."""
    step = played(modules, run, case)
    if step is not None:
        for why, condition in [one for name in case.keeps for one in KEPT[name](step)]:
            run.owe(condition, why)
    return True


def refuted(case: Case) -> Refuted | None:
    """Why it isn't so that a call keeps everything of a cache of any size; ``None`` if it is."""
    return explore(lambda run: kept(case, source_of(case), run), World)[0]


def found(lemma: str, planted: Slip, case: Case) -> Refuted | None:
    """A small cache on which a call with a slip doesn't keep what a lemma says; played with Python's own sets, too."""
    modules, only = source_of(case, planted), case._replace(keeps=(lemma.split(maxsplit=1)[0],))
    return explore(lambda run: kept(only, modules, run), SMALL)[0]


def is_met(case: Case) -> bool:
    """Whether there is a small cache on which the call comes to its end: played with Python's own sets, too."""
    return explore(lambda run: played(source_of(case), run, case) is None, SMALL)[0] is not None


# What the contracts rest on


TURN = Modules([EFFECTS], {}, turns={(EFFECTS, "lock")})
"""``effects.lock``, whose loop is gone through once."""


def one_turn_of_lock(modules: Modules, run: World) -> object:
    """A turn of the loop locks one page of the path, and goes on above it: what is left is the path from there.

    So after the last turn, where the name is a root's, each page that covered the first name is locked ``by`` more.
    """
    modules.kit.run = run
    cache = Cache(run)
    forest, tree, name, by = cache.forest, cache.state.device, run.element("name"), run.element("by")
    above = forest.above(whole(name))
    cache.names_a_page(whole(name), above)
    run.law(z3.Not(forest.known(whole(name), above)))
    run.law(cache.cached(whole(name)))
    after, local = modules[EFFECTS].lock(tree, name, by)

    def alike(at: Formula) -> Formula:
        old, new = mapped(tree.pages, at, NO_PAGE), mapped(after.pages, at, NO_PAGE)
        left = whole(old.locks) + whole(by) * forest.covers(at, whole(name))
        same = [whole(getattr(old, one)) == whole(getattr(new, one)) for one in ("parent", "page", "touched", "hits")]
        there = z3.And(*same, left == whole(new.locks) + whole(by) * forest.covers(at, above))
        return z3.And(is_in(tree.pages, at) == is_in(after.pages, at), z3.Implies(is_in(tree.pages, at), there))

    run.owe(run.every(alike), "a turn does something else than lock this page")
    run.owe(whole(local["name"]) == above, "the loop doesn't go on above it")
    return z3.Or(forest.root(above), cache.cached(above))


def closed_under_parents_is_closed_along_paths(_: Any, run: World) -> object:
    """If the parent of all that is cached is, so is the whole path to it: a step of the induction over its length."""
    cache = Cache(run)
    end = whole(run.element("end"))
    above, covers = cache.forest.above(end), cache.forest.known
    run.laws = [condition for _, condition in cache.closed(cache.state)] if run.size is None else run.laws
    run.law(cache.cached(end))
    run.law(run.every(lambda at: covers(at, end) == z3.Or(at == end, covers(at, above))))
    shorter = run.every(lambda at: z3.Implies(covers(at, above), cache.cached(at)))
    nothing = run.every(lambda at: z3.Not(covers(at, above)))
    run.law(z3.If(cache.forest.root(above), nothing, z3.Implies(cache.cached(above), shorter)))
    return run.every(lambda at: z3.Implies(covers(at, end), cache.cached(at)))


RESTS_ON = {"one turn of lock": one_turn_of_lock, "paths are closed": closed_under_parents_is_closed_along_paths}
TURN_SLIPS = (
    Slip(
        EFFECTS,
        "old.locks + by, old.first",
        "old.locks + by, old.first)\n        pages[old.parent] = pages[name]._replace(locks=9",
    ),
    Slip(
        EFFECTS,
        "        name = old.parent\n    return Tier(pages, tree.clock)\n\n\ndef insert",
        "        name = name\n    return Tier(pages, tree.clock)\n\n\ndef insert",
    ),
)

PROVEN = {
    f"a cache of any size: {name}": (one.rules, bounds)
    for lemmas, bounds in ((LEMMAS, BOUNDS), (TIER_LEMMAS, TIER_BOUNDS))
    for name, one in lemmas.items()
}
"""For the traceability matrix: what is proven, of which rules, within which bounds."""
