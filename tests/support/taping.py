"""Plays as tapes: a header, and steps as plain data, of any target and program."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Any

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import allowed_text, seen_texts
from kvlitmus.conformance.generate.schedule import describe
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Options, to_json
from kvlitmus.conformance.support.text import raised_text
from kvlitmus.conformance.tape.calls import CALLS, DOES, FILLED, LENT, LOOKS, look_key
from kvlitmus.conformance.tape.changes import change
from kvlitmus.conformance.tape.operands import Operands

Tape = tuple[dict[str, Any], list[dict[str, Any]]]


class Taped:
    """An adapter whose calls and looks become steps."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self._operands = Operands()
        self._shown: dict[str, Any] = {}
        self.steps: list[dict[str, Any]] = [{"looks": {}}]
        for name in CALLS:
            if callable(getattr(adapter, name, None)):
                setattr(self, name, partial(self._look if name in LOOKS else self._call, name))

    def _look(self, name: str, *args: Any) -> Any:
        form = CALLS[name]
        key = look_key(name, form.arguments(args, {}, self._operands)[0])
        try:
            answer = getattr(self._adapter, name)(*args)
        except Exception as error:
            self.steps[-1]["looks"][key] = {"raised": raised_text(error)}
            raise
        now = form.answered(answer, self._operands)
        if key not in self.steps[-1]["looks"]:
            old = self._shown.get(key)
            self.steps[-1]["looks"][key] = now if old is None else change(old, now)
            self._shown[key] = now
        return answer

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        form = CALLS[name]
        step: dict[str, Any] = {"call": name}
        self._operands.step = len(self.steps)
        step["args"], step["kwargs"] = form.arguments(args, kwargs, self._operands)
        step["did"], step["looks"] = [], {}
        self.steps.append(step)
        given = list(args)
        if name in LENT:
            given[LENT[name]] = Watched(args[LENT[name]], partial(self._did, step))
        before = [bytes(one) for one in args[FILLED[name]]] if name in FILLED else []
        try:
            answer = getattr(self._adapter, name)(*given, **kwargs)
        except Exception as error:
            step["raised"] = raised_text(error)
            raise
        if name == "ranks_ask":
            return answer
        step["answer"] = form.answered(answer, self._operands)
        for at, (now, then) in enumerate(zip(args[FILLED[name]], before, strict=True) if before else ()):
            if bytes(now) != then:
                step["did"].append(["fill", FILLED[name], at, base64.b64encode(now).decode()])
        return answer

    def _did(self, step: dict[str, Any], name: str, args: tuple[Any, ...], answer: Any) -> None:
        current = self.steps[-1]  # what was lent is used in later calls
        form = DOES[name]
        told = form.arguments(args, {}, self._operands)[0], form.answered(answer, self._operands)
        current.setdefault("did", []).append([name, *told])


class Watched:
    """What the suite lends, with an eye on what is done with it."""

    def __init__(self, thing: Any, did: Callable[[str, tuple[Any, ...], Any], None]) -> None:
        self._thing, self._did = thing, did

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if name not in DOES:
            return found

        def noted(*args: Any) -> Any:
            answer = found(*args)
            self._did(name, args, answer)
            return answer

        return noted


class Taping:
    """A target whose caches are taped; ``made``: the last one."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self.made: Taped | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def make(self, config: Config) -> Taped:
        self.made = Taped(self._target.make(config))
        return self.made


def taped(target: Any, config: Config, program: Callable[[Checker], None], name: str = "a cache") -> Tape:
    """The tape of a program that was played on a fresh cache; where it broke a rule, that of a finding."""
    taping = Taping(target)
    checker, violation = engine.play(taping, config, Options(), program, watches=True)
    assert taping.made is not None
    steps = taping.made.steps
    header: dict[str, Any] = {
        "kind": "kvlitmus tape",
        "format": 1,
        "kvlitmus": "test",
        "target": name,
        "config": to_json(config),
        "profile": describe(target.profile),
        "ports": sorted(checker.capabilities),
    }
    if len(checker.history) == len(steps) - 1:
        for step, text in zip(steps[1:], checker.history, strict=True):
            step["text"] = text
    if violation is not None:
        rule = checker.rules[violation.rules[0]]
        allowed = allowed_text(rule, checker.names, violation.facts)
        seen = seen_texts(rule, checker.names, violation.facts)
        header["finding"] = {
            "rules": list(violation.rules),
            "call": violation.call,
            "calls": list(checker.history),
            "allowed": allowed,
            "seen": seen,
            "detail": violation.detail,
            "parted": [f"call {at}: {what}" for at, what in checker.parted],
        }
        told = {"rule": rule.id, "sentence": rule.text, "allowed": allowed, "seen": seen}
        steps[-1]["verdicts"] = [told]
    return header, steps
