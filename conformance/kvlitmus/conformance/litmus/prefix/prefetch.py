"""Litmus tests on prefetch plans: one for each case of :mod:`~.prefetch_table`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.prefix import pure
from kvlitmus.conformance.litmus.prefix.prefetch_table import CASES, PlanCase
from kvlitmus.conformance.litmus.registry import add

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

RULES = tuple(f"PREFETCH-{number:02}" for number in (1, *range(4, 22)))
"""Every plan is judged by every rule of the part."""


def _program(case: PlanCase) -> Callable[[Checker], None]:
    def program(checker: Checker) -> None:
        pure.plan(checker, case.ask, case.script)

    return program


def _sentence(case: PlanCase) -> str:
    outcome = f"{case.expected} slots are reserved" if case.refusal is None else f"refused, {case.refusal}"
    ask = case.ask
    return f"{case.name} (key {ask.key_length}, page {ask.page_size}, threshold {ask.threshold}): {outcome}."


for _case in CASES:
    add(
        f"prefetch/{re.sub('[^a-z0-9]+', '-', _case.name.lower())}",
        _sentence(_case),
        _program(_case),
        rules=RULES,
        needs=("prefetch",),
        once=True,
    )
