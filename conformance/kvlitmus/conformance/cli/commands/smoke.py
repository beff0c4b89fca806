"""``kvlitmus smoke``: a quick look at a target, for those who are writing its adapter.

Where a rule is broken that another choice of the profile would allow, it says which choice.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from kvlitmus.conformance.cli.commands import session
from kvlitmus.conformance.generate.schedule import choices_of
from kvlitmus.conformance.ports import PORTS, SNAPSHOTS, Config, Profile
from kvlitmus.conformance.ports.template import APART, all_ports
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.report.terminal import labelled, unplayed
from kvlitmus.conformance.run.engine import UNFILLED
from kvlitmus.conformance.run.fitting import Fit, fits
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options, Verdict
from kvlitmus.conformance.run.verdicts import Scope, conclude
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.support.version import version
from kvlitmus.spec.parts import all_rules

OPS = 40
"""Operations per configuration."""

PROPOSED = 4
"""So many choices are proposed at most."""


def main(args: argparse.Namespace) -> int:
    """Look: 0 if all went well, 1 if a rule was broken, 3 if the target failed, 4 if nothing was played."""
    started = time.monotonic()
    word = harmless(args.target, 100)
    style = style_of(sys.stdout, args.color, verbose=args.verbose)
    ref = session.find(args.target, args.python)
    print(f"{style.paint(f'kvlitmus {version()}', 'bold')}: a quick look at {word}", flush=True)
    with session.asked(ref) as found:
        return looked(found, word, style, started)


def looked(found: session.Session, word: str, style: Style, started: float) -> int:
    """Say what a target is, and what came of a few steps of it."""
    for line in introduced(found, style):
        print(line)
    items = [Item(kind="random", config=config, seed=1, ops=OPS) for config in found.configs]
    options = Options(reruns=0, shrink_trials=60, shrink_seconds=5.0)
    results = []
    print()
    for result, config in zip(found.run(items, options), found.configs, strict=True):
        results.append(result)
        for line in tried(config, result, style):
            print(line, flush=True)
    for line in unplayed("not asked for", found.info.left_out):
        for part in style.wrap(line, "      ", f"  {style.symbol('none')} "):
            print(style.paint(part, "dim"))
    print()
    for line in hints(found, results):
        for part in style.wrap(line, "  ", "hint: "):
            print(style.paint(part, "yellow"))
    for line in proposed(found, items, results):
        for part in style.wrap(line, "  ", "profile: "):
            print(style.paint(part, "yellow"))
    for part in style.wrap(unexercised(found, results), "  ", ""):
        print(part)
    steps = sum(result.steps for result in results)
    print(
        style.paint(
            f"{steps:,} steps in {time.monotonic() - started:.1f} s; 'kvlitmus run {word}' judges all rules",
            "dim",
        )
    )
    if any(result.error for result in results):
        return 3
    return 1 if any(result.findings for result in results) else 0 if steps else 4


def introduced(found: session.Session, style: Style) -> Iterator[str]:
    """What the target says of itself."""
    yield ""
    if found.version:
        yield from labelled("version", found.version, style)
    has = found.capabilities
    yield from labelled("offers", ", ".join(port for port in PORTS if port in has) or "nothing", style)
    label = "lacks"
    for family, ports in lacking(has).items():
        told = [f"{port} ({', '.join(PORTS[port])})" if style.verbose else port for port in ports]
        whole = not style.verbose and all(one.name in ports for one in all_ports().values() if one.family == family)
        what = f"of {ABOUT[family]}: {'all' if whole else ', '.join(told)}"
        yield from labelled(label, what, style)
        label = ""
    choices = [f"{name}={value}" for name, value in choices_of(found.profile).items()]
    yield from labelled("profile", ", ".join(choices) + ", else the defaults" if choices else "all defaults", style)


ABOUT = {"": "a cache", "tier": "a hierarchy", **APART}
"""What the ports of each family belong to."""


def lacking(has: frozenset[str]) -> dict[str, list[str]]:
    """The ports that a target doesn't have, by family."""
    found: dict[str, list[str]] = {}
    for port in all_ports().values():
        if port.name not in has:
            found.setdefault(port.family, []).append(port.name)
    return found


def tried(config: Config, result: ItemResult, style: Style) -> Iterator[str]:
    """What came of a small schedule in one configuration."""
    label = f"{config.label:<24}"
    if result.unsupported:
        how = "not asked for" if result.left_out else "declined"
        yield style.paint(f"  {style.symbol('none')} {label} {how}: {result.unsupported}", "dim")
    elif result.error:
        yield from style.wrap(f"{label} {result.error}", "      ", f"  {style.paint(style.symbol('bad'), 'red')} ")
    elif result.findings:
        first = result.findings[0]
        text = f"{label} {', '.join(first.rules)} broken by call {len(first.calls)}, {brief(first.call)}"
        yield from style.wrap(
            text + (f": {first.detail}" if first.detail else ""),
            "      ",
            f"  {style.paint(style.symbol('bad'), 'red')} ",
        )
    else:
        yield f"  {style.paint(style.symbol('good'), 'green')} {label} {result.steps} steps, nothing broken"


def unexercised(found: session.Session, results: Sequence[ItemResult]) -> str:
    """How many rules of each pack nothing led to, or nothing that they speak of; empty where there are none."""
    profile = found.profile
    scope = Scope(
        misuse=profile.misuse,
        publish=profile.publish,
        aborted=profile.aborted,
        full=False,
        capabilities=found.capabilities,
    )
    told = {Verdict.PASSED: Counter[str](), Verdict.NOT_EXERCISED: Counter[str]()}
    for one in conclude(all_rules(), results, [], scope):
        if one.verdict in told:
            told[one.verdict][all_rules()[one.rule].pack] += 1
    passed, idle = told.values()
    packs = [f"{pack} {many} of {many + passed[pack]}" for pack, many in idle.items()]
    return f"not exercised in so few steps, rules of {', '.join(packs)}" if packs else ""


def hints(found: session.Session, results: Sequence[ItemResult]) -> Iterator[str]:
    """What is probably the matter."""
    played = [result for result in results if not result.unsupported]
    if not played:
        yield "the target declines every configuration; give it 'configs', a tuple of those that it can build"
        return
    broken = Counter(rule for result in played for finding in result.findings[:1] for rule in finding.rules)
    if len(played) > 1 and 3 * sum(bool(result.findings) for result in played) >= len(played):
        often = ", ".join(rule for rule, _ in broken.most_common(3))
        failing = sum(bool(result.findings) for result in played)
        yield (
            f"{failing} of {len(played)} configurations fail ({often}): that is more often the adapter than the cache; "
            f"start with 'kvlitmus rules {broken.most_common(1)[0][0]}'"
        )
    if broken["PORT-03"]:
        details = [one.detail for result in played for one in result.findings[:1] if "PORT-03" in one.rules]
        integers = (
            "; integers of tensors are had by tensor.tolist()" if any("integer" in one for one in details) else ""
        )
        yield f"PORT-03: an answer has not the promised form: what was expected, and what came, stands above{integers}"
    if broken["PORT-01"]:
        yield "PORT-01: for want of memory answer None, not an exception; if it isn't that, see which call raised"
    if any(about_page_0(finding, found.profile.reserved) for result in played for finding in result.findings[:1]):
        yield f"POOL-06, POOL-12: the profile says reserved={found.profile.reserved}; does the pool hand out page 0?"
    if all(UNFILLED in result.error for result in played):
        yield "fill in what is named above, or take its port out of the adapter"
    elif all(result.error for result in played):
        yield "the cache can't be made at all; call make() by hand with such a configuration to see the whole traceback"
    if found.capabilities.isdisjoint({"store", *SNAPSHOTS}):
        yield "without view() only answers and counters can be judged; a snapshot shows far more"


def proposed(found: session.Session, items: Sequence[Item], results: Sequence[ItemResult]) -> Iterator[str]:
    """Which choices of the profile the cache contradicts, and which it seems to make instead."""
    broken = sorted({rule for result in results for finding in result.findings for rule in finding.rules})
    if not broken or any(rule.startswith("PORT-") for rule in broken):
        return
    options = Options(reruns=0, shrink_trials=0, taped=False)
    with session.workers(found.ref, found.limits, keeps=True) as pool:
        fitting = fits(lambda asked: session.play(pool, asked, options), found.profile, items, results)
    rules = ", ".join(broken)
    sure = [fit for fit in fitting if fit.evaluations]
    for fit in sure[:PROPOSED]:
        yield f"with {told(fit, found.profile)} nothing is broken, and {rules} judged {fit.evaluations:,} ×"
    if sure:
        yield "declare what the cache means to do; docs/choices.md says what each value gives leave to"
    elif fitting:
        silencing = " or ".join(told(fit, found.profile) for fit in fitting[:PROPOSED])
        yield f"no choice allows what was seen; with {silencing} {rules} would not be judged"


def told(fit: Fit, profile: Profile) -> str:
    """A choice, and what is declared instead of it."""
    return f"{fit.field}={fit.value!r} (declared: {getattr(profile, fit.field)!r})"


def about_page_0(finding: Finding, reserved: int) -> bool:
    """Whether page 0 is where a pool and its profile part: handed out though reserved, or never though it is not."""
    if {"POOL-06", "POOL-12"}.isdisjoint(finding.rules) or "usable" not in finding.seen:
        return False
    elsewhere = [text for fact, text in finding.seen.items() if fact != "usable"]
    there = any(re.search(r"(?<!\d)0(?!\d)", text) for text in elsewhere)
    return there == bool(reserved)
