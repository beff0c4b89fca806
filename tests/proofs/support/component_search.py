"""Breadth first through every state of something small that has components: each call in each state, and judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from kvlitmus.spec.components.calls import After
from kvlitmus.spec.components.state import ComponentState
from kvlitmus.spec.law.rule import Rule
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

    def broken_by(self, state: ComponentState, call: object, after: After, report: Report) -> tuple[str, ...]:
        """The rules that a step breaks, by what was known before it, and what was answered and seen."""
        report.steps += 1
        return self.judge.broken(state, call, after)
