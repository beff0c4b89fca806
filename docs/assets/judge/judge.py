"""What the reader's browser runs: two files become a target, which is judged until something is broken.

``judge(cache, adapter, tell)`` returns what was found as text, and the page of the finding; ``tell`` hears how far
it is.
"""

from __future__ import annotations

import io
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from kvlitmus.conformance.report import terminal
from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.failures import tape_of
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.version import version
from kvlitmus.conformance.viewer.beside import shown
from kvlitmus.conformance.viewer.page import write

NAMES = ("toy_cache", "toy_target")
PAGE_SIZES = (1, 4)
STEPS = 120


def judge(cache: str, adapter: str, tell: Callable[[str], object]) -> tuple[str, str]:
    """Judge what these two files say; the text, and the page where something is broken."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in zip(NAMES, (cache, adapter), strict=True):
            sys.modules.pop(name, None)
            (Path(folder) / f"{name}.py").write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)
        try:
            __import__(NAMES[1])
            return played(sys.modules[NAMES[1]].target, tell)
        except Exception:  # noqa: BLE001 - whatever is wrong with what was edited, its reader sees
            return traceback.format_exc(limit=-3), ""
        finally:
            sys.path.remove(folder)


def played(target: object, tell: Callable[[str], object]) -> tuple[str, str]:
    """Play litmus tests and schedules until a rule is broken."""
    configs = [one for one in plan.configs_of(target) if one.page_size in PAGE_SIZES]
    items = plan.items(configs, target.profile, steps=STEPS)  # type: ignore[attr-defined]
    steps, rules = 0, set[str]()
    for at, item in enumerate(items, 1):
        tell(f"{at} of {len(items)}: {item.id}")
        result = engine.run_item(target, item, Options(reruns=0, shrink_trials=400))
        steps += result.steps
        rules |= {rule for rule, times in result.evaluated.items() if times}
        if result.error:
            return f"the adapter failed in {item.id}: {result.error}", ""
        if result.findings:
            return told(result.findings[0])
    return f"{len(rules)} rules hold: {steps:,} steps in {len(items)} items, and none was broken", ""


def told(found: engine.Finding) -> tuple[str, str]:
    """A finding as text and as a page."""
    lines = [f"{', '.join(found.rules)} broken", ""]
    lines += [*terminal.sequence(found, Style(color=False)), "", f"allowed  {brief(found.allowed)}"]
    lines += [f"seen     {name.replace('_', ' ')} = {brief(value)}" for name, value in found.seen.items()]
    stream = io.StringIO()
    header, steps = tape_of(found, target=NAMES[1], depth=3, force_misuse=False, version=version())
    write(stream, [shown(header, steps, "")])
    return "\n".join(lines), stream.getvalue()
