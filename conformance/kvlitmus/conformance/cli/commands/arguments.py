"""The arguments of the subcommands; a subcommand's own module is imported only when it runs."""

from __future__ import annotations

import argparse

from kvlitmus.conformance.cli.commands import arguments_more, common
from kvlitmus.conformance.cli.commands.common import add_color, add_target

RUN_EXAMPLES = """\
examples:
  kvlitmus run                                    the built-in cache, all rules
  kvlitmus run reference --jobs 2                 the reference model, two workers
  kvlitmus run my_cache.kvlitmus:target --depth 1 without looking into it
  kvlitmus run --rule TREE-03,LOCK-02 --seed 7    two rules, other schedules
  kvlitmus run --config page_size=4,policy=lfu    one configuration
  kvlitmus run --list --pack evict                what would be run

A rule passes only if it was evaluated and never broken. Rules that need what the target lacks are
not applicable; rules that nobody reached because runs ended at a broken rule are blocked by it.
A run with fewer steps, configurations or no litmus tests is shortened: there, what was not
exercised is shown and does not fail."""

BASELINE_HELP = "known violations (TOML: [[known]] with rule, reason, link, optional until); stale entries fail"


def add_run(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``run``."""
    add_target(parser)
    which = parser.add_argument_group("what to judge")
    which.add_argument("--rule", metavar="ID", action="append", default=[], help="only these rules (repeat, or commas)")
    which.add_argument("--pack", metavar="P", action="append", default=[], help="only the rules of these packs")
    which.add_argument("--strength", choices=("must", "should"), type=str.lower, help="only rules of this strength")
    which.add_argument(
        "--depth",
        metavar="0..3",
        type=common.whole_number(0, 3),
        default=3,
        help="how deep to observe: 0 answers, 1 counters, 2 events, 3 snapshots (default: 3)",
    )
    which.add_argument(
        "--force-misuse", action="store_true", help="try misuse even where the profile says it is undefined"
    )
    add_how(parser.add_argument_group("how to run"))
    add_what(parser.add_argument_group("what to report"))


def add_how(how: argparse._ArgumentGroup) -> None:
    """How to run."""
    from kvlitmus.conformance.run.plan import STEPS

    how.add_argument("--page-size", metavar="1,4", type=common.page_sizes, help="only these page sizes")
    how.add_argument(
        "--config",
        metavar="FIELD=VALUE,…",
        type=common.config_filter,
        action="append",
        default=[],
        help="only configurations with these values (page_size, policy, host_pages, storage, …)",
    )
    how.add_argument(
        "--seed",
        metavar="N",
        type=common.whole_number(0, 1 << 31),
        default=0,
        help="where the seeds of the schedules begin (default: 0)",
    )
    how.add_argument(
        "--steps",
        metavar="N",
        type=common.whole_number(0, 100_000_000),
        default=STEPS,
        help=f"steps of random schedules per configuration (default: {STEPS})",
    )
    how.add_argument(
        "--jobs",
        metavar="N",
        type=common.whole_number(1, 64),
        default=common.default_jobs(),
        help="worker processes (default: one per core)",
    )
    how.add_argument("--no-litmus", action="store_true", help="random schedules only")
    how.add_argument("--vectors", metavar="DIR", help="play the vectors of this folder too (see 'kvlitmus promote')")
    common.add_limits(how)


def add_what(what: argparse._ArgumentGroup) -> None:
    """What to report."""
    what.add_argument("--list", action="store_true", help="list rules and items; run nothing")
    what.add_argument("--baseline", metavar="FILE", help=BASELINE_HELP)
    what.add_argument(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        help="write a report: .json (schema in the package) or .md",
    )
    arguments_more.add_forms(what)
    what.add_argument(
        "--record",
        metavar="FILE",
        help="record the steps of litmus tests and of each configuration's first schedule (.xz), to be judged again",
    )
    what.add_argument(
        "--failures",
        metavar="DIR",
        default=".kvlitmus/failures",
        help="where counterexamples are saved (default: .kvlitmus/failures)",
    )
    common.add_verbose(what)
    add_color(what)


def add_replay(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``replay``."""
    parser.add_argument("file", metavar="FILE", help="a saved failure")
    parser.add_argument("--target", metavar="TARGET", help="another target than the one that is named in the file")
    parser.add_argument("--python", metavar="PATH", help="the Python that the cache lives in, if it is another one")
    add_color(parser)


def add_smoke(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``smoke``."""
    add_target(parser)
    add_color(parser)


def add_rules(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``rules``."""
    parser.add_argument("names", nargs="*", metavar="ID|PACK", help="rules or packs (default: all)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as Markdown")
    add_color(parser)


def add_mutants(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``mutants``."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants (default: all)")
    parser.add_argument(
        "--rule", metavar="ID", action="append", default=[], help="only mutants that these rules must kill"
    )
    parser.add_argument(
        "--steps",
        metavar="N",
        type=common.whole_number(1, 100_000_000),
        help="random steps per mutant (default: 20000, null mutants too)",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=common.whole_number(0, 1 << 31),
        default=0,
        help="where the seeds begin (default: 0)",
    )
    parser.add_argument("--random-only", action="store_true", help="without litmus tests")
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=common.whole_number(1, 64),
        default=common.default_jobs(),
        help="processes (default: one per core)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON (the summary line goes to stderr)")
    add_color(parser)
