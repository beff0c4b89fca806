"""Judging a stream: batch after batch, by the rules of events that need nothing but what is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kvlitmus.conformance.checker.explain import allowed_text, seen_texts
from kvlitmus.conformance.history.state import Located
from kvlitmus.conformance.history.streams.forms import Batch, Cleared, KvEvent, Removed, Stored
from kvlitmus.conformance.history.streams.mirror import BlockNames, Publisher, shown
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run.results import Finding
from kvlitmus.conformance.support.text import harmless
from kvlitmus.spec.law.facts import UNKNOWN, Facts
from kvlitmus.spec.law.plan import value_of
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.prefix import batches
from kvlitmus.spec.prefix.state import Amiss, EventMirror
from kvlitmus.spec.words.setting import Setting

CAPABILITIES = frozenset({"events", "batches"})
"""What a stream offers; of groups of whole prefixes, and of others."""

WHOLE = ("EVENT-01", "EVENT-05", "EVENT-06", "EVENT-07", "EVENT-12")
"""Rules of prefixes that need nothing but the events."""

ENTRIES = WHOLE[:1]
"""The one of blocks that are of use without those before them."""

ORDER = "EVENT-11"
"""The one of the numbers."""

EVENTS = 2
"""The depth of events."""


class Heard(NamedTuple):
    """What is known after a batch: what all groups of a publisher tell, and what was wrong with it, in words."""

    told: EventMirror


@dataclass(slots=True, kw_only=True)
class JudgedStream:
    """What came of a stream.

    ``stopped`` says why judging ended before the stream did; ``last`` is the last line, or message, that was judged.
    """

    findings: list[Located] = field(default_factory=list)
    evaluated: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    events: int = 0
    last: int = 0
    stopped: str = ""
    torn: str = ""
    interrupted: bool = False


class StreamJudge:
    """Judges one stream.

    profile: how events are to be read (``event_copies``).  complete: whether the stream without numbers begins with an
    empty cache.  window: how many batches a finding shows.
    """

    def __init__(
        self,
        file: str,
        rules: Mapping[str, Rule],
        profile: Profile,
        *,
        complete: bool = True,
        keep_going: bool = False,
        window: int = 20,
    ) -> None:
        self.file, self.rules = file, rules
        self.complete, self.keep_going, self.window = complete, keep_going, window
        self.setting = Setting(Config(), profile, EVENTS, CAPABILITIES, BlockNames())
        self.outcome = JudgedStream()
        self.publishers: dict[str, Publisher] = {}
        self.shown: list[Batch] = []
        self.silenced = set[str]()
        self.wholes = False

    def run(self, stream: Iterable[Batch]) -> Iterator[int]:
        """Judge all batches, as far as they can be; yields how many are done."""
        try:
            for batch in stream:
                going = self.step(batch)
                self.outcome.last = batch.line
                if not going:
                    return
                yield self.outcome.batches
        except KeyboardInterrupt:
            self.outcome.interrupted = True

    def step(self, batch: Batch) -> bool:
        """Judge one batch; whether to go on."""
        publisher = self.publishers.get(batch.publisher)
        if publisher is None:
            publisher = self.publishers[batch.publisher] = Publisher(self.setting, complete=self.complete)
        received = publisher.numbered(batch)
        if received is None:
            return True
        self.outcome.batches += 1
        self.outcome.events += len(batch.events)
        self.shown = [*self.shown[1 - self.window :], batch] if self.window > 1 else [batch]
        odd = publisher.hear(batch)
        entries = any(not one.whole for one in publisher.groups.values())
        wholes = any(one.whole for one in publisher.groups.values())
        self.wholes |= wholes
        amiss = map(tuple, (odd.renamed, odd.strays, odd.orphans, odd.aliases))
        then = Heard(EventMirror({}, {}, {}, {}, tuple([Amiss("", text) for text in odd.odd]), (), *amiss))
        known: Facts = {}
        wanted = (*(WHOLE if wholes else ENTRIES if entries else ()), ORDER)
        broken = self.judged(wanted, received, then, known, tells(batch))
        if not broken:
            return True
        self.found(batch, broken, known)
        return self.keep_going

    def judged(
        self, wanted: Iterable[str], received: batches.Batch, then: Heard, known: Facts, telling: bool
    ) -> list[str]:
        """Those of these rules that a batch breaks and that are not told yet; all that are judged are counted."""
        inputs = {"setting": self.setting, "call": received, "then": then}
        broken = []
        for id in wanted:
            rule = self.rules.get(id)
            values = {name: value_of(name, inputs, known) for name in rule.facts} if rule is not None else {}
            if rule is None or UNKNOWN in values.values():
                continue
            kept = rule.predicate(**values)
            idle = kept and rule.premise != "" and not telling
            (self.outcome.idle if idle else self.outcome.evaluated)[id] += 1
            if not kept and id not in self.silenced:
                broken.append(id)
        return broken

    def found(self, batch: Batch, broken: list[str], known: Facts) -> None:
        """Note broken rules, and where; each is told once."""
        outcome, rule = self.outcome, self.rules[broken[0]]
        calls = [batch_text(one) for one in self.shown]
        seen: dict[str, str] = {}
        for id in broken:
            seen |= seen_texts(self.rules[id], self.setting.names, known)
        finding = Finding(
            rules=broken,
            item=f"events:{harmless(self.file)}",
            config=self.setting.config,
            call=calls[-1],
            calls=calls,
            allowed=allowed_text(rule, self.setting.names, known),
            seen=seen,
            detail="",
            drawn_steps=outcome.batches,
            steps=outcome.batches,
        )
        lines = [one.line for one in self.shown]
        before = outcome.batches - len(lines)
        outcome.findings.append(Located(finding=finding, line=batch.line, lines=lines, before=before))
        self.silenced |= {*broken}
        if not self.keep_going:
            outcome.stopped = f"{batch.line}: a rule is broken (--keep-going judges on by the others)"


def tells(batch: Batch) -> bool:
    """Whether a batch tells of a block that was stored."""
    return any(isinstance(one, Stored) for one in batch.events)


def batch_text(batch: Batch) -> str:
    """A batch as findings show it."""
    whose = ", ".join(([] if batch.number is None else [str(batch.number)]) + [batch.publisher] * bool(batch.publisher))
    return harmless(f"batch({whose}): {'; '.join(map(event_text, batch.events)) or 'nothing'}", 2_000)


def event_text(event: KvEvent) -> str:
    """An event by the names of its blocks."""
    if isinstance(event, Cleared):
        return "all blocks cleared"
    names = ", ".join(map(shown, event.ids))
    where = f"{event.tier}{f', group {event.group}' if event.group else ''}"
    if isinstance(event, Removed):
        return f"removed {names} ({where})"
    below = "" if event.parent is None else f" below {shown(event.parent)}"
    return f"stored {names}{below} ({where})"
