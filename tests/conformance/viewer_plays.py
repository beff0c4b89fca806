"""Plays that pages are drawn of."""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.beside.moments import filled
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.failures import tape_of
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.tape.lines import TapeReader
from kvlitmus.conformance.tape.recorder import Recording
from kvlitmus.conformance.viewer.page import family_of
from kvlitmus.conformance.viewer.scenes import MOST_SQUARES, ODD, Scene, scenes
from kvlitmus.mutants.registry import all_mutants

Tape = tuple[dict[str, Any], list[dict[str, Any]]]
"""A header, and steps, as they stand in a file."""

MUTANTS = all_mutants()


def config_like(label: str, target: Any = specimen) -> Config:
    return next(config for config in plan.configs_of(target) if label in config.label)


def played(target: Any, item: Item) -> Tape:
    """The tape of an item: that of what was found, or else of all that was played."""
    options = Options(shrink_trials=0, reruns=0)
    recording = Recording(target)
    result = engine.run_item(recording, item, options)
    assert not result.error, result.error
    assert not result.unsupported, result.unsupported
    if result.findings:
        (found,) = engine.run_item(target, item, options).findings
        return tape_of(found, target="a cache", depth=3, force_misuse=False, version="test", fill=filled)
    data = recording.record(item, target="a cache")
    assert data is not None
    reader = TapeReader("a play", data=data)
    header, steps = next(iter(reader.plays()))
    return header.data, [step.data for step in steps]


def random_play(target: Any, config: Config, ops: int = 40) -> Tape:
    return played(target, Item(kind="random", config=config, seed=1, ops=ops))


def finding(id: str, litmus: str, label: str) -> Tape:
    mutant = MUTANTS[id]
    tape = played(mutant.target, Item(kind="litmus", config=config_like(label, mutant.target), name=litmus))
    assert "finding" in tape[0]
    return tape


def drawn(tape: Tape) -> list[Scene]:
    header, steps = tape
    return list(scenes(steps, [family_of(header)]))


def odd(scene: Scene) -> list[tuple[str, int, str]]:
    return [(pool["name"], label, kind) for pool in scene["pools"] for label, kind, _ in pool["squares"] if kind in ODD]


def locked(scene: Scene) -> int:
    return sum("locked" in who for pool in scene["pools"] for _, _, who in pool["squares"])


LEAK = ("abort-releases-nothing", "request/an-aborted-request-leaves-nothing", "page=1 lru")


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{script}}'\"&\u202e\u2028\x1b[31m"


def hostile_tape() -> Tape:
    """A tape whose every text is hostile, played by a cache that answers whatever it likes."""
    key = {"tokens": [1, 2, 3, 4], "namespace": HOSTILE, "bigram": False}
    node = {"parent": -1, "namespace": HOSTILE, "units": [1, 2, HOSTILE, [5, HOSTILE]], "slots": [4, 5, 6, 7]}
    looks = {
        "view": {"free": [1, 1, HOSTILE], "nodes": [node, HOSTILE]},
        f"peek({HOSTILE})": HOSTILE,
        HOSTILE: {"a": HOSTILE},
    }
    finding = {
        **dict.fromkeys(("call", "allowed", "detail", "minimal"), HOSTILE),
        "rules": ["POOL-12", HOSTILE],
        "calls": [HOSTILE],
        "seen": {HOSTILE: HOSTILE},
        "parted": [HOSTILE],
    }
    verdict = {"rule": HOSTILE, "sentence": HOSTILE, "allowed": HOSTILE, "seen": {HOSTILE: HOSTILE}}
    steps: list[dict[str, Any]] = [
        {"looks": looks},
        {"call": "begin", "args": [HOSTILE, key], "answer": {"row": [4, HOSTILE], "cached": HOSTILE}},
        {
            "call": "insert",
            "args": [key, {"$": "tuple", "of": [4, 5]}],
            "answer": HOSTILE,
            "did": [["put", [HOSTILE], True]],
        },
        {
            "call": HOSTILE,
            "args": HOSTILE,
            "raised": HOSTILE,
            "text": HOSTILE,
            "verdicts": [verdict, HOSTILE],
            "op": HOSTILE,
        },
    ]
    return {"target": HOSTILE, "config": {"policy": HOSTILE}, "item": {"name": HOSTILE}, "finding": finding}, steps


LONG = config_like("storage=attached best_effort")

WIDE = Config(page_size=1, pages=MOST_SQUARES - 64)
"""A cache whose every page is drawn, nearly as large as there may be."""


def long_play(count: int, config: Config = LONG) -> Tape:
    """A play of so many steps: one that is played over and over, with a reset between."""
    header, steps = random_play(specimen, config, ops=100)
    fresh, *rest = steps
    again = {"call": "reset", "args": [], "answer": None, "looks": fresh["looks"]}
    many = [fresh]
    while len(many) < count:
        many += [*rest, again]
    return header, many[:count]
