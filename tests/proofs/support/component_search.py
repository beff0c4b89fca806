"""Breadth first through every state of something small that has components: each call in each state, and judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from kvlitmus.conformance.checker.calls.components.plain import Pools
from kvlitmus.conformance.checker.judge import Judge
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.calls import Free
from kvlitmus.spec.prefix.components.calls import PoolsSeen
from kvlitmus.spec.prefix.components.steps import ComponentStep
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from tests.support.step_judge import StepJudge

Model = TypeVar("Model")
Call = TypeVar("Call")


@dataclass
class Report:
    """What was found: states, steps, how often each rule was judged, and the first rules that were broken."""

    states: int = 0
    steps: int = 0
    evaluated: Counter[str] = field(default_factory=Counter)
    broken: tuple[str, ...] = ()
    call: object = None


class ComponentSearch(ABC, Generic[Model, Call]):
    """A search of all states of a model, with the calls that are made in each of them."""

    rules: tuple[Rule, ...]
    capabilities: frozenset[str]
    setting: Setting
    every = 1
    """After every which step the pools are looked at too."""
    looks = True

    @cached_property
    def judge(self) -> StepJudge:
        """Who judges the steps of this search."""
        return StepJudge(self.rules, self.capabilities, self.setting)

    @abstractmethod
    def empty(self) -> Model:
        """Where the search begins."""

    @abstractmethod
    def calls(self, model: Model) -> Iterator[Call]:
        """Every call that a lawful caller may make."""

    @abstractmethod
    def step(self, model: Model, call: Call, report: Report) -> tuple[Model, tuple[str, ...]]:
        """Perform a call and judge it: what comes of it, and the rules that it breaks."""

    @abstractmethod
    def plain(self, model: Model) -> Model:
        """The same state, told by what matters: two that act alike are equal."""

    @abstractmethod
    def identity(self, model: Model) -> object:
        """What two states have in common that act alike."""

    def run(self, most: int = 200_000) -> Report:
        """Every state that can be reached, unless a rule is broken first; raises where there are more than ``most``."""
        report = Report(evaluated=self.judge.evaluated)
        start = self.plain(self.empty())
        seen = {self.identity(start)}
        waiting = deque([start])
        while waiting:
            model = waiting.popleft()
            report.states += 1
            if report.states > most:
                raise AssertionError(f"more than {most} states")
            for call in self.calls(model):
                then, broken = self.step(model, call, report)
                if broken:
                    report.broken, report.call = broken, call
                    return report
                then = self.plain(then)
                alike = self.identity(then)
                if alike not in seen:
                    seen.add(alike)
                    waiting.append(then)
        return report

    def broken_by(self, one: ComponentStep, report: Report) -> tuple[str, ...]:
        """The rules that a step breaks: those of components, and of its pools as the plain caches that they are."""
        report.steps += 1
        broken = self.judge.broken(one.before, one.call, one.answer, one.after, one.then) if one.judged else ()
        return broken or (self.broken_in_pools(one) if self.looks else ())

    @cached_property
    def pools(self) -> Pools:
        """The pools of the cache."""
        return Pools(self.setting)

    @cached_property
    def judge_of_pools(self) -> Judge:
        """By which rules they are judged."""
        return Judge(all_rules(), depth=3, capabilities=frozenset(), muted=frozenset())

    @cached_property
    def judges(self) -> dict[str, Judge]:
        """Who judges the steps of each of them."""
        return {}

    def look(self, state: State, before: PoolsSeen, report: Report) -> None:
        """What was seen of the pools before a step, where they are looked at after it."""
        self.looks = report.steps % self.every == 0
        for _ in self.pools.lifted(ComponentStep(state, Free({}), None, before, state, state)) if self.looks else ():
            pass

    def broken_in_pools(self, one: ComponentStep) -> tuple[str, ...]:
        """The rules of plain caches that a step breaks."""
        for view in self.pools.lifted(one):
            judge = self.judges.get(view.where)
            if judge is None:
                judge = self.judges[view.where] = self.judge_of_pools.beside(3, view.setting.capabilities, view.laws)
            known = "call" not in view.unknown
            on = occasions_of(view.call, view.answer, view.state, view.setting, view.before) if known else ()
            judge.step(on, view.inputs, view.unknown, told=False)
            if judge.broken:
                return judge.broken
        return ()
