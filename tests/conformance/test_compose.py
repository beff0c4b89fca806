"""Requests composed from parts behave like requests that a cache has itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kvlitmus.conformance.checker.calls.prefix import request, tree
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.ports import Config, Profile, Stored, capabilities_of
from kvlitmus.conformance.ports.compose import Composed, ToldOfRequests, with_requests
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.words.units import Key
from tests.support.night import by_turns

PARTIAL = {"publish_upto", "end_upto"}
HIDDEN = {"begin", "grow", "publish", "end", *PARTIAL}


class Bare:
    """The specimen without its requests."""

    hidden = HIDDEN

    def __init__(self, inner: Specimen) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name in self.hidden:
            raise AttributeError(name)
        return getattr(self._inner, name)


class Forgets(Bare):
    """And with an insert that claims more than was cached, so that a caller frees too much."""

    def insert(self, key: Key, slots: Sequence[int], **how: Any) -> Stored:
        """One page too many, where a page was there."""
        already = self._inner.insert(key, slots, **how).already
        return Stored(min(already + self._inner.config.page_size, len(slots)) if already else 0)


class Whole(Bare):
    """The specimen with requests that are all computed at once."""

    hidden = PARTIAL


class BareTarget:
    """Makes bare specimens."""

    def __init__(self, kind: type[Bare] = Bare, inner: Any = target) -> None:
        self.kind = kind
        self.inner = inner
        self.profile = inner.profile

    def make(self, config: Config) -> Bare:
        """A fresh one."""
        return self.kind(self.inner.make(config))


@pytest.mark.parametrize(
    "config",
    by_turns([Config(), Config(page_size=4), Config(page_size=4, bigram=True), Config(page_size=16, pages=8)], every=2),
    ids=lambda config: config.label,
)
def test_composed_requests_keep_every_rule(config: Config) -> None:
    for seed in range(2):
        result = run_item(BareTarget(), Item(kind="random", config=config, seed=seed, ops=400), Options())

        assert (result.findings, result.error) == ([], "")
        assert result.evaluated["REQ-04"]
        assert result.evaluated["REQ-07"]
        assert result.evaluated["REQ-13"]


@pytest.mark.parametrize(
    "config", by_turns([Config(), Config(page_size=4), Config(page_size=4, policy="lfu")]), ids=str
)
@pytest.mark.parametrize(
    "name",
    [
        "matches-count-as-hits",
        "duplicates-stay-the-callers",
        "cache-frees-duplicates",
        "last-token-computed",
        "no-empty-prompts",
        "tokens-are-checked",
    ],
)
def test_requests_composed_of_a_cache_with_choices_of_its_own_keep_every_rule(name: str, config: Config) -> None:
    inner = all_mutants()[name].target
    for seed, depth in enumerate((1, 3)):
        item = Item(kind="random", config=config, seed=seed, ops=300)
        result = run_item(BareTarget(inner=inner), item, Options(depth=depth))

        assert (result.findings, result.error) == ([], "")
        assert result.evaluated["REQ-01"]


def test_what_a_composed_request_was_made_of_is_shown() -> None:
    checker = Checker(Bare(target.make(Config(page_size=4, pages=8))), Config(page_size=4, pages=8), PROFILE)
    key = Key(None, (1,) * 10, False)
    assert request.begin(checker, 1, key)
    request.publish(checker, 1, chunked=False)
    request.end(checker, 1, keep=False)

    assert [line.partition("(match")[2].partition(")")[0] for line in checker.history[:1]] == [", lock, alloc(12"]
    assert "(insert of 8, protected=0, match of 8, lock, unlock)" in checker.history[1]
    assert checker.history[2].startswith("end(1, keep=False) (free([")


class Asked(Bare, ToldOfRequests):
    """Notes at each lock whether that is a part of a request."""

    def __init__(self, inner: Specimen) -> None:
        super().__init__(inner)
        self.locked: list[bool] = []

    def lock(self, handle: object) -> object:
        """See :class:`~kvlitmus.spec.interface.cache.Locks`."""
        self.locked.append(bool(self.composing))
        return self._inner.lock(handle)


def test_an_adapter_of_the_suite_is_told_when_a_call_is_a_part_of_a_request() -> None:
    config = Config(page_size=4, pages=8)
    cache = Asked(target.make(config))
    checker, key = Checker(cache, config, PROFILE), Key(None, (1,) * 10, False)
    tree.lock(checker, tree.match(checker, key), key, 1)
    request.begin(checker, 1, key)

    assert cache.locked == [False, True]


def test_a_cache_keeps_what_it_has_by_the_name_of_what_the_suite_tells() -> None:
    cache = Bare(target.make(Config(page_size=4)))
    cache.composing = "its own"  # type: ignore[attr-defined]
    with_requests(cache, 4, PROFILE)

    assert cache.composing == "its own"


def test_requests_that_can_not_be_computed_in_part_are_judged_without_that() -> None:
    whole = Whole(target.make(Config(page_size=4)))
    assert "requests" in capabilities_of(whole) and "partial" not in capabilities_of(whole)
    assert with_requests(whole, 4, PROFILE) is whole
    for seed in range(3):
        item = Item(kind="random", config=Config(page_size=4), seed=seed, ops=400)
        result = run_item(BareTarget(Whole), item, Options())

        assert (result.findings, result.error) == ([], "")
        assert result.evaluated["REQ-04"] and result.evaluated["TREE-08"]
        assert not result.evaluated["REQ-13"]


def test_an_insert_that_lies_shows_in_the_requests_made_of_it() -> None:
    broken = set()
    for seed in range(3):
        result = run_item(BareTarget(Forgets), Item(kind="random", config=Config(), seed=seed, ops=200), Options())
        broken |= {rule for found in result.findings for rule in found.rules}

    assert broken & {"TREE-09", "TREE-11"}
    # the specimen refuses a free of what is cached: then the requests that are made of its parts raise
    assert broken & {"POOL-12", "REQ-07", "LOCK-01", "REQ-11", "PORT-01"}


def test_only_what_lacks_requests_gets_them() -> None:
    whole = target.make(Config())
    bare = Bare(whole)

    assert with_requests(whole, 1, PROFILE) is whole
    assert isinstance(with_requests(bare, 1, PROFILE), Composed)
    assert "requests" in capabilities_of(with_requests(bare, 1, PROFILE))
    assert with_requests(whole.pool, 1, Profile()) is whole.pool
