"""What is drawn of plays of caches of components: who has which place, and what is under way."""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.beside.places import Places
from kvlitmus.conformance.specimen.cache import component_target
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.viewer.scenes import Scene
from tests.conformance.viewer_plays import MUTANTS, config_like, drawn, locked, odd, random_play


def test_nothing_is_red_where_what_a_copy_brings_counts_from_its_beginning() -> None:
    mutant = MUTANTS["component-copies-count-from-the-beginning"]
    found = drawn(random_play(mutant.target, mutant.configs[0], ops=120))
    assert any(" + load of step" in who for one in found for pool in one["pools"] for _, _, who in pool["squares"])
    assert [scene["text"] for scene in found if odd(scene)] == []


def test_work_of_every_kind_is_drawn() -> None:
    label = "host=24 write_through storage=attached best_effort groups"
    found = drawn(random_play(component_target, config_like(label, component_target), 200))
    squares = [who for one in found for pool in one["pools"] for _, kind, who in pool["squares"] if kind == "flight"]
    assert {who.split(" of ")[0] for who in squares} == {"prefetch", "backup", "load"}
    assert {kind for one in found for _, kind, _, _ in one["jobs"]} == {"prefetch", "backup", "load", "write"}


FETCH = {"@": [2, 0]}
"""What the prefetch of the play below gave."""


def prefetched(*ends: tuple[str, list[Any], Any, list[int]]) -> list[Scene]:
    """A cache prefetches into places 1 and 2 of its KV, and reads into both; then these calls, and what is free."""
    config = {"components": "kv+swa", "pages": 4, "page_size": 1, "host_pages": 4}
    key = {"tokens": [1, 2], "namespace": None, "bigram": False}
    told: list[tuple[str, list[Any], Any, list[int]]] = [
        ("component_evict", [{}], {}, [0, 1, 2, 3]),
        ("component_prefetch", [None, key, 0], [FETCH, {"kv": [1, 2]}, {}], [0, 3]),
        ("component_prefetch_found", [FETCH, {"kv": [1, 2]}], [2, {"kv": [[1, 1], [2, 2]]}, {}], [0, 3]),
        *ends,
    ]
    steps: list[dict[str, Any]] = [
        {
            "call": call,
            "args": args,
            "answer": answer,
            "looks": {
                "component_free_places": {"kv": free, "swa": []},
                "component_free_host": {"kv": [0, 1, 2, 3], "swa": []},
                "component_entries": [],
                "component_host_entries": [],
            },
        }
        for call, args, answer, free in told
    ]
    return drawn(({"config": config}, steps))[3:]


ABORT, SETTLED = "component_prefetch_abort", "component_prefetch_settled"


def test_a_prefetch_that_is_over_has_what_its_io_writes_until_that_has_ended() -> None:
    found = prefetched((ABORT, [FETCH], {}, [0, 3]), (SETTLED, [FETCH], {"kv": [1, 2]}, [0, 1, 2, 3]))
    assert [odd(one) for one in found] == [[], [], []]
    assert [[state for _, _, state, _ in one["jobs"]] for one in found] == [
        ["under way"],
        ["over, its I/O is under way"],
        [],
    ]
    found = prefetched((SETTLED, [FETCH], {}, [0, 3]), (ABORT, [FETCH], {"kv": [1, 2]}, [0, 1, 2, 3]))
    assert [odd(one) for one in found] == [[], [], []] and found[1]["jobs"] and not found[2]["jobs"]
    detached: Any = ("component_detach", [], {}, [0, 3])
    found = prefetched(detached, (SETTLED, [FETCH], {"kv": [1, 2]}, [0, 1, 2, 3]))
    assert [odd(one) for one in found] == [[], [], []] and found[1]["jobs"] and not found[2]["jobs"]


def test_of_what_came_no_io_writes_any_more() -> None:
    commit: Any = ("component_prefetch_commit", [FETCH, {"kv": [1]}], [0, {"kv": [1]}], [0, 1, 3])
    found = prefetched(commit, (SETTLED, [FETCH], {"kv": [2]}, [0, 1, 2, 3]))
    assert [odd(one) for one in found] == [[], [], []]
    assert found[1]["jobs"][0][2:] == ("over, its I/O is under way", "kv 2")


def test_what_is_free_while_io_writes_it_is_red_and_what_no_prefetch_gave_back() -> None:
    (_, free) = prefetched((ABORT, [FETCH], {"kv": [1, 2]}, [0, 1, 2, 3]))
    assert odd(free) == [("Device: kv", 1, "two"), ("Device: kv", 2, "two")]
    (_, over, lost) = prefetched((ABORT, [FETCH], {}, [0, 3]), (SETTLED, [FETCH], {"kv": [1]}, [0, 1, 3]))
    assert (odd(over), odd(lost)) == ([], [("Device: kv", 2, "none")])


def test_the_reference_beside_prefetches_into_the_same_places() -> None:
    """Of the device, whether there is a host or not."""
    places = Places(config_like("page=1 lru pages=12 host=8 kv+swa+state", component_target))
    places.learn("device", "kv", mine=1, theirs=5)
    told: Json = [None, {"kv": [1, 2]}, {}]
    assert places.answer("component_prefetch", told, "") == [None, {"kv": [5, 2]}, {}]
    assert places.answer("component_detach", {"kv": [1]}, "") == {"kv": [5]}
    assert places.answer("component_back_up", told, "") == told


def test_what_a_receipt_of_components_covers_says_so_on_its_squares() -> None:
    """No look shows it: it follows from the key that was matched, and from what the receipt says."""
    tape = random_play(component_target, config_like("kv+swa", component_target), 200)
    covers: dict[str, int] = {}
    most = 0
    for scene, step in zip(drawn(tape)[1:], tape[1], strict=True):
        if step.get("call") == "component_lock":
            receipt, cover = step["answer"]
            covers[str(receipt)] = sum(map(len, cover.values()))
        if step.get("call") == "component_unlock":
            covers.pop(str(step["args"][0]), None)
        if step.get("call") in ("component_lock", "component_unlock"):
            assert max(covers.values(), default=0) <= locked(scene) <= sum(covers.values())
            most = max(most, locked(scene))
    assert most


def test_places_that_are_handed_out_twice_are_red_too() -> None:
    twice = [{"call": "component_alloc", "args": [{"kv": 1}], "answer": {"kv": [4]}} for _ in range(2)]
    back = {"call": "component_free", "args": [{"kv": [4]}], "answer": None}
    found = drawn(({"config": {"components": "kv+swa", "pages": 8, "page_size": 1}}, [*twice, back]))
    who = [
        {label: (kind, who) for pool in one["pools"] for label, kind, who in pool["squares"]}[4] for one in found[1:]
    ]
    assert who == [("caller", "caller, step 1"), ("two", "caller, steps 1 + 2"), ("caller", "caller, step 2")]
