"""The campaign: who plays what next, and what comes of it.

One process chooses, and all others play.  In this order: counterexamples are shrunk, known findings
are played again to see whether they still occur, kept schedules are played again to see what they
reach today, and then, until the budget is spent, schedules are chosen by the corpus.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Protocol

from kvlitmus.conformance.fuzz.budget import Budget
from kvlitmus.conformance.fuzz.came import Came, Tally
from kvlitmus.conformance.fuzz.corpus import Choice, Corpus, Entry
from kvlitmus.conformance.fuzz.dedupe import Distinct, Known
from kvlitmus.conformance.fuzz.findings import load_findings, retire, save_finding
from kvlitmus.conformance.fuzz.job_runner import Done, Job, JobRunner
from kvlitmus.conformance.fuzz.store import Store, digest
from kvlitmus.conformance.run.minimise import ranked
from kvlitmus.conformance.run.results import Finding, Item, Options
from kvlitmus.spec.parts import all_rules

BEAT = 10.0
"""Seconds between two lines of the journal that say how far the campaign has come."""

WIND_UP = 60.0
"""Seconds that counterexamples may still be shrunk when the budget is spent."""

HOPELESS = 25
"""After so many plays in a row that failed outside of any judged call, the campaign ends."""


class Listener(Protocol):
    """Who wants to hear of a campaign."""

    def say(self, text: str) -> None:
        """A message that stays."""

    def found(self, distinct: Distinct) -> None:
        """A distinct finding that was not known is on disk."""

    def tick(self, campaign: Campaign) -> None:
        """Some time has passed."""


@dataclass(slots=True, kw_only=True)
class Shrinking:
    """A finding that is being shrunk: as it was met, and where it is saved meanwhile."""

    raw: Finding
    path: Path
    leads: bool


class Campaign:
    """One session of a campaign on one target.

    stop_at: rules of which a finding ends it, as for a canary.
    """

    def __init__(
        self,
        *,
        target: str,
        runner: JobRunner,
        corpus: Corpus,
        known: Known,
        store: Store,
        budget: Budget,
        options: Options,
        listener: Listener,
        stop_at: frozenset[str] = frozenset(),
    ) -> None:
        self.target = target
        self.runner = runner
        self.corpus = corpus
        self.known = known
        self.store = store
        self.budget = budget
        self.options = options
        self.listener = listener
        self.stop_at = stop_at
        self.tally = Tally()
        self.texts: dict[int, str] = {}
        self.queue: deque[Job] = deque()
        self.shrinks: deque[Job] = deque()
        self.open: dict[Path, Finding] = {}
        self.hopeless = 0
        self.stopped = False
        self.began = self.ended = monotonic()
        self.beaten = monotonic()

    # -- the session ---------------------------------------------------------------------------

    def run(self) -> None:
        """Play until the budget is spent.

        ``KeyboardInterrupt``, a target that can't be loaded, a full disk and a judge that was changed come through.
        """
        self.began = self.ended = monotonic()
        self.budget.start()
        self.store.note("began", target=self.target, seconds=self.budget.seconds, steps=self.budget.steps)
        try:
            self.resume()
            until = float("inf")
            while True:
                for done in self.runner.turn(self.give):
                    self.take(done)
                self.beat()
                self.listener.tick(self)
                if self.over and until == float("inf"):
                    until = monotonic() + WIND_UP
                if self.over and (monotonic() > until or not (self.runner.busy or self.shrinks)):
                    self.runner.look()
                    return
        finally:
            self.ended = monotonic()
            self.runner.stop()
            with suppress(OSError):  # a disk that was full before; the last beat tells as much
                self.store.note("ended", **self.standing())

    @property
    def elapsed(self) -> float:
        """Seconds that this session has played, the canary's turn left out."""
        return (monotonic() if self.ended == self.began else self.ended) - self.began

    @property
    def over(self) -> bool:
        """Whether nothing new is to be begun."""
        worn = self.runner.worn_out or self.hopeless >= HOPELESS or not self.corpus.configs
        return self.stopped or worn or self.budget.over

    def standing(self) -> dict[str, float]:
        """Where this session stands, for the journal."""
        return {
            "steps": self.tally.steps,
            "plays": self.tally.plays,
            "elapsed": round(self.elapsed, 3),
            "corpus": len(self.corpus.entries),
            "features": len(self.corpus.hits),
            "findings": len(self.known.distinct),
        }

    def found(self) -> list[Distinct]:
        """All distinct findings, those that don't occur any more among them."""
        return list(self.known.distinct.values())

    def came(self) -> Came:
        """What came of this session, as it stands now."""
        reached: dict[str, Counter[int]] = {}
        for number, times in self.corpus.hits.items():
            family = self.texts.get(number, "").partition(" ")[0]
            reached.setdefault(family, Counter())[number] = times
        return Came(
            tally=self.tally,
            seconds=self.elapsed,
            reached=reached,
            entries={digest(entry): entry.features for entry in self.corpus.entries},
            resting=self.known.resting(),
            further=self.known.further,
            fenced=sorted(self.runner.deaths.fenced),
            deaths=self.runner.deaths.count,
            worn_out=self.runner.worn_out,
        )

    def beat(self) -> None:
        """Say in the journal where things stand, if it is time again."""
        if monotonic() - self.beaten >= BEAT:
            self.beaten = monotonic()
            self.store.note("beat", **self.standing())

    def resume(self) -> None:
        """Take up what an earlier session left: findings, what was to be shrunk, kept schedules."""
        told = self.store.reported()
        for finding, path in load_findings(self.store, self.store.findings):
            distinct = self.known.remember(finding, path, new=path.name not in told)
            if distinct.path == path:
                self.queue.append(self.job("item", finding, only(finding), note=distinct))
        for finding, path in load_findings(self.store, self.store.pending):
            if self.known.meet(finding):
                self.shrink(finding, path, only(finding), leads=True)
            else:
                path.unlink(missing_ok=True)
        for entry in self.store.entries():
            choice = Choice(config=entry.config, schedule=entry.schedule, origin=entry.origin)
            self.queue.append(self.play(choice, note=(choice, entry)))

    # -- jobs ----------------------------------------------------------------------------------

    def give(self) -> Job | None:
        """The next job."""
        if self.shrinks:
            return self.shrinks.popleft()
        if self.over:
            return None
        if self.queue:
            return self.queue.popleft()
        choice = self.corpus.choose()
        return self.play(choice, note=(choice, None))

    def play(self, choice: Choice, note: tuple[Choice, Entry | None]) -> Job:
        """Play a schedule."""
        item = Item(kind="schedule", config=choice.config, schedule=choice.schedule)
        muted = self.options.muted | self.known.muted()
        return Job(do="fuzz", item=item, options=replace(self.options, muted=muted), note=note)

    def job(self, do: str, finding: Finding, muted: frozenset[str], *, note: object, trials: int = 0) -> Job:
        """Play a finding again, or shrink it."""
        item = Item(kind="schedule", config=finding.config, schedule=tuple(finding.schedule))
        return Job(
            do=do, item=item, options=replace(self.options, muted=muted, reruns=0, shrink_trials=trials), note=note
        )

    def shrink(self, raw: Finding, path: Path, muted: frozenset[str], *, leads: bool) -> None:
        """Have a finding shrunk that is on disk as it was met."""
        self.open[path] = raw
        note = Shrinking(raw=raw, path=path, leads=leads)
        self.shrinks.append(self.job("item", raw, muted, note=note, trials=self.options.shrink_trials))

    # -- what comes of them --------------------------------------------------------------------

    def take(self, done: Done) -> None:
        """Take what a worker has done."""
        note = done.job.note
        self.corpus.drop(self.runner.deaths.unmade)
        if isinstance(note, Shrinking):
            self.take_shrunk(done, note)
        elif isinstance(note, Distinct):
            self.take_check(done, note)
        else:
            self.take_play(done, *note)

    def take_play(self, done: Done, choice: Choice, entry: Entry | None) -> None:
        """A schedule was played: features, and findings."""
        result, tally = done.result, self.tally
        tally.evaluated += result.evaluated
        if entry is None:
            tally.plays += 1
            tally.steps += result.steps
            self.budget.spent += result.steps
        else:
            tally.loaded += 1
            tally.replayed += result.steps
        self.hopeless = 0 if result.steps or done.died else self.hopeless + 1
        if result.error:
            tally.errors[result.error] += 1
        if result.unsupported:
            tally.declined[result.config] = result.unsupported
            self.corpus.drop({choice.config.label: ""})
        self.texts.update(done.texts)
        worth = self.corpus.reached(choice, done.reached, done.where)
        if entry is not None:
            tally.redundant += worth is None
            if worth is not None:
                self.corpus.add(replace(worth, schedule=entry.schedule))
        elif worth is not None:
            self.store.keep(worth)
            self.corpus.add(worth)
            tally.kept += 1
        muted = done.job.options.muted
        for finding, leads in ranked(result):
            self.meet(finding, muted, leads=leads)
            muted |= set(finding.rules)
        if done.died is not None:
            self.meet_death(done.died)

    def meet(self, finding: Finding, muted: frozenset[str], *, leads: bool) -> None:
        """A rule was broken."""
        if self.known.meet(finding):
            path = save_finding(self.store.pending, finding, self.target, self.options)
            self.shrink(finding, path, muted, leads=leads)

    def meet_death(self, finding: Finding) -> None:
        """A worker died; its schedule has been shrunk already."""
        if self.known.meet(finding):
            self.settle(finding, finding, leads=True, steady=True)

    def take_shrunk(self, done: Done, note: Shrinking) -> None:
        """A finding was shrunk, or did not occur again."""
        raw = note.raw
        same = [one for one in done.result.findings if raw.rules[0] in one.rules]
        shrunk = same[0] if same else raw
        shrunk.drawn_steps = max(raw.steps, shrunk.drawn_steps)
        self.settle(raw, shrunk, leads=note.leads, steady=bool(same))
        note.path.unlink(missing_ok=True)
        self.open.pop(note.path, None)
        if done.died is not None:
            self.meet_death(done.died)

    def settle(self, raw: Finding, shrunk: Finding, *, leads: bool, steady: bool) -> None:
        """Save a finding if it is new, or shorter than what says the same; announce it if it is new."""
        same = self.known.same_as(shrunk)
        path = same.path if same is not None else Path()
        if same is None or same.gone or len(shrunk.calls) < len(same.finding.calls):
            path = save_finding(self.store.findings, shrunk, self.target, self.options)
            if same is not None and same.path != path and not same.gone:
                self.store.note("shorter", rules=shrunk.rules, file=path.name, instead_of=same.path.name)
                same.path.unlink(missing_ok=True)
        fresh = self.known.settle(raw, shrunk, path, leads=leads, steady=steady)
        if fresh is not None:
            self.store.note("found", rules=shrunk.rules, file=path.name, steps=self.tally.steps)
            self.listener.found(fresh)
            self.stopped = self.stopped or not self.stop_at.isdisjoint(shrunk.rules)

    def take_check(self, done: Done, distinct: Distinct) -> None:
        """A known finding was played again."""
        rules = set(distinct.finding.rules)
        broken = [*done.result.findings, *([done.died] if done.died else [])]
        if any(not rules.isdisjoint(one.rules) for one in broken):
            distinct.hits += 1
        elif done.result.error or done.result.unsupported:
            self.listener.say(f"{distinct.path.name} could not be played: {done.result.error or 'declined'}")
        else:
            retire(self.store, distinct)
            self.listener.say(f"{distinct.path.name} no longer occurs; it is kept in findings/gone")


def only(finding: Finding) -> frozenset[str]:
    """All rules but those of a finding, muted when it is played by itself."""
    return frozenset(all_rules().keys() - set(finding.rules))
