"""What the subcommands share: errors of the user, names that nearly fit, options that several have."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import closest

if TYPE_CHECKING:
    from kvlitmus.conformance.ports import Config
    from kvlitmus.spec.law.rule import Rule


class UsageError(Exception):
    """A mistake of the user: shown as one line, without a traceback; exit code 2."""


class TargetFailed(Exception):
    """The target can't be judged at all: it can't be imported, asked or made; exit code 3."""


def pick_rules(ids: Sequence[str], packs: Sequence[str], strength: str | None = None) -> dict[str, Rule]:
    """The rules that were asked for (all, if none were named); unknown names get a hint."""
    from kvlitmus.spec.law.rule import RETIRED, Strength, in_force
    from kvlitmus.spec.parts import all_rules

    rules = all_rules()
    known_packs = list(dict.fromkeys(rule.pack for rule in rules.values()))
    wanted: set[str] = set()
    for word in split(ids):
        id = word.upper()
        if id in RETIRED:
            why = f"rule {id} is retired: {RETIRED[id].why}"
            if in_force(id) not in rules:
                raise UsageError(why)
            id = in_force(id)
            print(f"{why}; {id} is taken instead", file=sys.stderr)
        if id not in rules:
            raise UsageError(f"there is no rule {word!r}{near_rules(word, rules)} ('kvlitmus rules' lists them)")
        wanted.add(id)
    for word in split(packs):
        if word.lower() not in known_packs:
            raise UsageError(
                f"there is no pack {word!r}{closest(word, known_packs)} (there are {', '.join(known_packs)})"
            )
        wanted |= {rule.id for rule in rules.values() if rule.pack == word.lower()}
    chosen = {id: rule for id, rule in rules.items() if id in wanted or not (ids or packs)}
    if strength is not None:
        chosen = {id: rule for id, rule in chosen.items() if rule.strength is Strength(strength.upper())}
    if not chosen:
        raise UsageError("none of the rules that were named has this strength")
    return chosen


def check_writable(option: str, name: str) -> None:
    """Refuse a file that could not be written, before anything is run."""
    if why := files.unwritable(Path(name)):
        raise UsageError(f"{option} {name}: can't be written: {why}")


def near_rules(word: str, rules: Mapping[str, Rule]) -> str:
    """A hint for the id of a rule that there is none: what its prefix may have been, or which numbers there are."""
    prefix, dash, number = word.upper().partition("-")
    prefixes = list(dict.fromkeys(id.partition("-")[0] for id in rules))
    near = difflib.get_close_matches(prefix, prefixes, n=1, cutoff=0.7)
    if not near or not (dash and number.isdecimal()):
        return f"; {prefix} is a pack (--pack {prefix.lower()})" if prefix in prefixes else ""
    if (id := f"{near[0]}-{number.lstrip('0'):0>2}") in rules:
        return f"; did you mean {id!r}?"
    having = [id for id in rules if id.startswith(f"{near[0]}-")]
    return f"; there are {having[0]} to {having[-1]}"


def split(words: Iterable[str]) -> list[str]:
    """Words that were given one by one or separated by commas."""
    return [part.strip() for word in words for part in word.split(",") if part.strip()]


def whole_number(least: int, most: int, beyond: str = "") -> Any:
    """A type for argparse: an integer within bounds; ``beyond``: what to do for more."""

    def parse(text: str) -> int:
        try:
            number = int(text.replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not least <= number <= most:
            more = f"; for more, {beyond}" if beyond and number > most else ""
            raise argparse.ArgumentTypeError(f"{number} is not between {least} and {most}{more}")
        return number

    parse.__name__ = "number"
    return parse


def page_sizes(text: str) -> tuple[int, ...]:
    """A type for argparse: page sizes such as ``1,4``."""
    parse = whole_number(1, 1024)
    sizes = tuple(dict.fromkeys(parse(part) for part in split([text])))
    if not sizes:
        raise argparse.ArgumentTypeError("expected page sizes such as 1,4")
    return sizes


def config_fields() -> dict[str, Any]:
    """The fields of a configuration, with their usual values."""
    from kvlitmus.conformance.ports import Config

    return asdict(Config())


def config_filter(text: str) -> Any:
    """A type for argparse: conditions such as ``page_size=4,policy=lfu``."""
    wanted: dict[str, str] = {}
    fields = config_fields()
    for part in split([text]):
        name, sign, value = part.partition("=")
        name = {"page": "page_size"}.get(name.strip(), name.strip())
        if not sign or not value.strip():
            raise argparse.ArgumentTypeError(f"expected FIELD=VALUE such as page_size=4 (got {part!r})")
        if name not in fields:
            raise argparse.ArgumentTypeError(
                f"a config has no field {name!r}{closest(name, fields)} (it has {', '.join(fields)})"
            )
        wanted[name] = value.strip().lower()
    return wanted


def pick_configs(
    configs: Sequence[Config], sizes: Sequence[int] | None, filters: Sequence[Mapping[str, str]]
) -> tuple[Config, ...]:
    """The configurations to run: all of the target's, those with these page sizes, those that pass a filter.

    A page size that no configuration has gets the plain ones in that size.  A filter that no
    configuration passes makes one, so that any configuration can be asked for.
    """
    from kvlitmus.conformance.run import plan

    chosen = list(configs)
    if sizes:
        chosen = [one for one in configs if one.page_size in sizes]
        fresh = [size for size in sizes if all(one.page_size != size for one in configs)]
        chosen += [one for one in plan.with_pages(configs, fresh) if one not in chosen]
        if not chosen:
            chosen = [replace(configs[0], page_size=size) for size in sizes]
    if filters:
        found = [one for one in chosen if any(fits(one, wanted) for wanted in filters)]
        for wanted in filters:
            if not any(fits(one, wanted) for one in found):
                found.append(build(wanted))
        chosen = found
    return tuple(dict.fromkeys(chosen))


def fits(config: Config, wanted: Mapping[str, str]) -> bool:
    """Whether a configuration has these values."""
    return all(str(getattr(config, name)).lower() == value for name, value in wanted.items())


def build(wanted: Mapping[str, str]) -> Config:
    """A configuration with these values and the usual ones otherwise."""
    from kvlitmus.conformance.run.results import config_from_json

    plain: dict[str, Any] = {}
    fields = config_fields()
    for name, value in wanted.items():
        if type(fields[name]) is int:
            if not re.fullmatch(r"\d{1,9}", value):
                raise UsageError(f"config.{name} must be a whole number (got {value!r})")
            plain[name] = int(value)
        elif type(fields[name]) is bool:
            if value not in ("true", "false"):
                raise UsageError(f"config.{name} must be true or false (got {value!r})")
            plain[name] = value == "true"
        else:
            plain[name] = value
    try:
        return config_from_json(plain)
    except ValueError as error:
        raise UsageError(str(error)) from None


def default_jobs() -> int:
    """As many workers as there are cores for this process, at most 8."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def add_target(parser: argparse.ArgumentParser) -> None:
    """The target, and how it is reached."""
    parser.add_argument(
        "target",
        nargs="?",
        default="specimen",
        metavar="TARGET",
        help="what to judge: a name such as specimen or reference, or your own: module, module:attribute, file.py, or "
        "exec:program (default: specimen)",
    )
    parser.add_argument(
        "--python", metavar="PATH", help="the Python interpreter that has the cache (default: this one)"
    )


def add_limits(group: argparse._ActionsContainer) -> None:
    """What workers may spend."""
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=whole_number(1, 3_600),
        default=10,
        help="limit for one call, and for making each cache after the first (default: 10); a method's first call in a "
        "configuration, which may compile what it runs, has --start-timeout",
    )
    group.add_argument(
        "--start-timeout",
        metavar="SECONDS",
        type=whole_number(1, 86_400),
        help="limit for importing the target, for making its first cache, and for a method's first call in a "
        "configuration (default: 90; never less than --timeout)",
    )
    group.add_argument(
        "--memory",
        metavar="MB",
        type=whole_number(100, 1 << 24),
        help="limit for the memory (address space) of each worker (default: none)",
    )


def add_verbose(group: argparse._ActionsContainer) -> None:
    """Whether to tell what is usually counted only."""
    group.add_argument("-v", "--verbose", action="store_true", help="say of each port or rule what is missing")


def add_color(group: argparse._ActionsContainer) -> None:
    """When to use colours."""
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours (default: on a terminal, without NO_COLOR)",
    )
