"""Explanations: what offends is never cut away, and names and counts are put into words."""

from __future__ import annotations

import re

from kvlitmus.conformance.checker.explain import (
    BY_HASH,
    COUNTED,
    LONG,
    PAGES,
    STRUCTURED,
    allowed_text,
    elided,
    fact_text,
    named,
    seen_texts,
)
from kvlitmus.conformance.cli.commands.smoke import about_page_0
from kvlitmus.conformance.litmus.registry import litmus_of
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run.engine import make_checker, run_item
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.run.results import Finding, Item, Options
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.law.facts import FACTS, Facts
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.replay import replay
from kvlitmus.spec.prefix.rules.pool import misplaced
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import EventMirror
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo


def names_of(*keys: tuple[int, ...]) -> tuple[Names, list[int]]:
    names = Names()
    return names, [names.of(None, key)[-1] for key in keys]


def test_a_slot_that_is_given_twice_is_named_however_long_the_list() -> None:
    granted = (*range(36, 128), *range(127, 10, -2), 400)
    text = fact_text(Names(), "granted", granted)
    assert text.startswith("37, 39, 41")
    assert "more than once in" in text
    assert fact_text(Names(), "granted", tuple(range(1_000))) == "(0…999)"
    odd = fact_text(Names(), "granted", tuple(range(0, 2_000, 2)))
    assert len(odd) <= LONG + 3
    assert odd.endswith("1996, 1998)")


def test_one_slot_given_twice_is_the_first_thing_told() -> None:
    assert fact_text(Names(), "granted", (*range(36, 128), 127)) == "127 more than once in (36…127, 127)"


def test_names_are_told_as_prefixes_whatever_the_fact() -> None:
    names, (first, second) = names_of((1, 1), (2, 1, 3))
    assert {"due_missed", "anchors", "homeless", "cut_off", "told_device", "host_lately"} <= named()
    assert fact_text(names, "due_missed", [first]) == "[‹1 1›]"
    assert fact_text(names, "anchors", frozenset({second})) == "[‹2 1 3›]"
    assert fact_text(names, "cached_after", {first: 7}) == "{‹1 1›: page 7}"


def test_no_fact_of_a_rule_is_told_by_internal_numbers() -> None:
    as_they_are = {"ranks_unread"}  # ranks have no other names than their numbers
    told = named() | STRUCTURED.keys() | PAGES | COUNTED | BY_HASH | as_they_are
    speak = {fact for rule in all_rules().values() for fact in rule.facts if fact in FACTS}
    for fact in sorted(speak - told):
        kind = str(FACTS[fact].compute.__annotations__["return"])
        assert "Name" not in kind, fact
        assert not re.search(r"\[tuple\[int, int\]", kind), f"{fact}: pairs of what?"


def test_pages_by_their_hash_and_locks_out_of_order_are_put_into_words() -> None:
    names, (first,) = names_of((1, 2))
    assert fact_text(names, "bearers", {"ab" * 32: first}) == "{abababababab…: ‹1 2›}"
    assert fact_text(names, "lock_inversions", [(0, 2)]) == "[a node with 2 locks below one with 0]"
    assert fact_text(names, "node_locks", [(1, 1), (3, 0)]) == "3 where it should be 0"


def test_counts_are_told_where_they_are_wrong() -> None:
    assert fact_text(Names(), "node_hits", [(2, 2), (0, 1)]) == "0 where it should be 1"


def test_of_two_large_collections_the_difference_is_told() -> None:
    names, told = names_of(*[(number,) for number in range(1, 30)])
    rule = all_rules()["TIER-12"]
    facts: Facts = {"anchors": frozenset(told), "in_tree": frozenset(told[:-1])}
    assert seen_texts(rule, names, facts) == {
        "anchors": "29 entries; [‹29›] is not in in tree",
        "in_tree": "28 entries; nothing is not in anchors",
    }
    rule = all_rules()["EVENT-02"]
    facts = {"told_device": frozenset(told), "device_lately": (frozenset(told[:-1]),)}
    assert seen_texts(rule, names, facts) == {
        "told_device": "29 entries; [‹29›] is not in device lately",
        "device_lately": "28 entries; nothing is not in told device",
    }


def test_what_was_at_each_of_several_moments_is_told_as_prefixes() -> None:
    names, (first, second) = names_of((1, 1), (2, 1, 3))
    rule = all_rules()["EVENT-03"]
    facts: Facts = {"told_host": frozenset({first}), "host_lately": [frozenset({second}), frozenset()]}
    assert seen_texts(rule, names, facts) == {"told_host": "[‹1 1›]", "host_lately": "[‹2 1 3›] or []"}
    facts["host_lately"] = (frozenset({second}),)
    assert seen_texts(rule, names, facts)["host_lately"] == "[‹2 1 3›]"


def test_a_long_text_loses_its_middle() -> None:
    text = elided("a" * 300 + "b" * 300 + "c" * 300)
    assert text == "a" * 200 + " … " + "c" * 200


def test_page_0_is_hinted_at_where_pool_and_profile_part_there() -> None:
    def found(usable: str, free: str) -> Finding:
        seen = {"usable": usable, "free_after": free, "owned_after": "{}"}
        return Finding(rules=["POOL-12"], item="", config=Config(), call="", calls=[], allowed="", seen=seen)

    assert about_page_0(found("{1, 2}", "{0, 1, 2}"), 1)
    assert not about_page_0(found("{1, 2}", "{1}"), 1)
    assert about_page_0(found("{0, 1, 2}", "{1, 2}"), 0)
    assert not about_page_0(found("{0, 1, 2}", "{0, 2}"), 0)


def test_a_copy_under_way_is_told_with_the_call_that_began_it() -> None:
    """Nobody holds a receipt, and no request runs: without it a reader searches for what protects the page."""
    name = "backup/a-backup-holds-its-source-until-it-has-landed"
    mutant = all_mutants()["backup-takes-no-lock"].target
    (first, *_) = run_item(mutant, Item(kind="litmus", config=TIER_CONFIGS[0], name=name), Options(reruns=0)).findings
    begun = [call for call in first.calls if re.search(r", begins backup \d+$", call)]
    assert begun and "copy under way" in all_rules()["LOCK-01"].text
    # The same of loads, of which the calls say as little.
    checker = make_checker(specimen, TIER_CONFIGS[0], Options())
    litmus_of("load/a-load-arrives-layer-by-layer").program(checker)
    assert any(", begins load " in text for text in checker.begun.values())


def test_a_page_that_is_gone_is_unknown_and_no_number() -> None:
    names = Names()
    lost = names.lost("tenant")
    assert fact_text(names, "anchors", [lost]) == "[‹unknown page @tenant›]"
    assert fact_text(names, "anchors", names.extend(lost, (7,))) == "[‹unknown page 7 @tenant›]"


def test_an_event_names_the_page_that_its_id_stands_for() -> None:
    setting = make_checker(specimen, Config(), Options()).setting
    first = Event("stored", "device", 8579320195160610452, None, (4,), None)
    again = Event("stored", "device", 8579320195160610452, None, (5,), "tenant")
    removed = Event("removed", "device", 8579320195160610452, None, (), None)
    unknown = removed._replace(page=13)
    heard = replay(EventMirror(), setting, [first, removed, removed, unknown])
    assert [one.text for one in heard.odd] == [
        "removed from the device without being there: the page at the end of [4], with id 8579320195160610452",
        "removed from the device without being there: an unknown page, with id 13",
    ]
    (renamed,) = replay(EventMirror(), setting, [first, again]).renamed
    assert "which is there, the page at the end of [4], with id 8579320195160610452: " in renamed


def test_which_pages_have_no_home_or_two_is_said_of_both_tiers() -> None:
    """Nobody has to subtract sets: what is left over is named."""
    pool = all_rules()["POOL-12"]
    one, two, three, four, nine = map(PageNo, (1, 2, 3, 4, 9))
    homes = {"free": [two, two], "cached": [three, nine], "owned": [three]}
    assert misplaced({one, two, three, four}, homes, excused={four}).split(", ") == [
        *("page 1 has no home", "page 2 is free and free", "page 3 is cached and owned"),
        *("page 9 is cached", "and no page of the pool"),
    ]
    assert "page 1 has no home" in allowed_text(pool, Names(), {"odd_homes": "page 1 has no home"})
    device = [frozenset(map(PageNo, one)) for one in ([0, 1, 2], [], [2], [0], [])]
    assert FACTS["odd_homes"].compute(*device, "") == "page 1 has no home"
    assert FACTS["odd_homes"].compute(*device, "page 3 has no home").endswith(", and on the host page 3 has no home")
    page, setting = PageNo(0), Setting(Config(page_size=1, pages=1, host_pages=1), Profile(), 3, frozenset())
    seen = TierSeen(host_free=(page,), host_listed=[page])
    assert FACTS["misplaced_on_host"].compute(setting, seen) == "page 0 is free and in the tree"
