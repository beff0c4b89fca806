"""The reference beside a cache: what it has cached after each step of a tape, by its own account of the calls.

A tape is judged once more, without the cache; the judge knows what calls and answers amount to.  Where the cache shows
another place for a prefix, or one that the reference doesn't have, they have parted.  That pages are gone need not be
wrong: which ones are evicted is the cache's to choose.  This is known of flat caches and of hierarchies, where there is
a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import name_text
from kvlitmus.conformance.history.again import Again, Played, Record
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run.engine import HarnessError, Program, Scheduled, play
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.tape.forms import FormError
from kvlitmus.conformance.tape.lines import Header, Step, TapeReader, encoded
from kvlitmus.conformance.viewer.page import Play
from kvlitmus.conformance.viewer.plain import short
from kvlitmus.conformance.viewer.scenes import Drawn, Row, table
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting


def shown(header: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], replay: str) -> Play:
    """A finding, to be drawn with the reference beside it; ``replay``: the command that plays it again."""
    data = b"".join(map(encoded, (header, *steps)))
    with TapeReader("a finding", data=data) as reader:
        found, told = next(iter(reader.plays()))
        return Play(header, steps, replay, beside(found, list(told)))


class Kept(Again):
    """A recorded target; ``made``: the cache that it made last."""

    made: Played | None = None

    def make(self, config: Config) -> Played:
        """The cache as it was recorded, from the beginning."""
        self.made = super().make(config)
        return self.made


def beside(header: Header, steps: Sequence[Step]) -> dict[int, Drawn]:
    """By step, what reference and cache have; of a tape that can't be judged again as far as that goes."""
    tables: dict[int, Drawn] = {}
    program = None if header.item is None else program_of(header.item)
    if header.item is None or program is None or not steps:
        return tables
    target = Kept(Record(header.item, [(header, list(steps))]))

    class Watching(Checker):
        """A judge that notes what it knows."""

        def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
            """Note, and judge."""
            setting, _, expected, then, _, _, _, after, *_ = inputs
            if isinstance(expected, State) and isinstance(then, State) and isinstance(after, Seen) and after.seen:
                assert target.made is not None
                tables[target.made.at] = drawn(expected, then, after, setting)
            super().judge(occasions, inputs, unknown)

    finding = header.data.get("finding")
    rules = set(map(str, finding.get("rules") or ())) if isinstance(finding, dict) else set()  # type: ignore[arg-type]
    options = Options(
        depth=header.depth,
        muted=frozenset(all_rules().keys() - rules) if rules else frozenset(),
        force_misuse=header.force_misuse,
        shrink_trials=0,
    )
    try:
        play(target, header.config, options, program, CurrentRun(Watching))
    except (HarnessError, Unsupported, FormError):
        return tables
    return tables


def program_of(item: Item) -> Program | None:
    """What was played; nothing, where this version doesn't know."""
    if item.kind in ("schedule", "vector"):
        return Scheduled(item.schedule)
    known = all_litmus()
    return known[item.name].program if item.kind == "litmus" and item.name in known else None


def drawn(expected: State, then: State, after: Seen, setting: Setting) -> Drawn:
    """What both have after a step; a row in which they differ stands out.

    In a block table a prefix may have several places, each with its locks: there only its being cached is compared.
    """
    shown = {name: node.locks for node in after.nodes for name in node.info.items}
    rows = []
    for name in sorted({*expected.tree.pages, *after.cached}):
        mine, theirs = expected.tree.pages.get(name), after.cached.get(name)
        locks, held = then.tree.pages.get(name), shown.get(name)
        parted = theirs is not None and (mine is None or (mine.page != theirs and not setting.table))
        unlike = locks is not None and held is not None and locks.locks != held and not setting.table
        cells = [
            place(None if mine is None else mine.page, None if locks is None else locks.locks),
            place(theirs, held),
        ]
        rows.append(Row(str(name), [short(name_text(setting.names, name), 120), *cells], odd=parted or unlike))
    return table("Reference beside cache, on the device", ["prefix", "reference", "cache"], rows)


def place(page: int | None, locks: int | None) -> str:
    """Where a prefix is, and how many locks are on it."""
    if page is None:
        return "–"
    return f"page {page}" + (f", {locks} lock{'s' * (locks != 1)}" if locks else "")
