"""The arguments of ``fuzz`` and ``promote``; their own modules are imported only when they run."""

from __future__ import annotations

import argparse

from kvlitmus.conformance.cli.commands import common
from kvlitmus.conformance.cli.commands.common import add_color, add_target

FUZZ_EXAMPLES = """\
examples:
  kvlitmus fuzz                                      the built-in cache, ten minutes
  kvlitmus fuzz my_cache:target --for 8h --corpus fuzz-corpus --report night.json --issue issue.md
  kvlitmus fuzz --steps 100000 --workers 1 --seed 7  repeatable
  kvlitmus fuzz my_cache:target --baseline known.toml only what isn't known fails

Everything that is announced is on disk already: after Ctrl-C or a kill the same command goes on.

exit codes:
  0 nothing was found, and the canary was       1 a rule is violated, or an expired baseline
  2 wrong usage                                 3 the adapter or the harness failed
  4 the canary was not found                    130 interrupted; what was found is saved"""

PROMOTE_EXAMPLES = """\
examples:
  kvlitmus promote .kvlitmus/fuzz/specimen/findings/TREE-02-1a2b3c4d.json --why "split keeps the locks"
  kvlitmus promote finding.json --into my_vectors    and later: kvlitmus run --vectors my_vectors

exit codes:
  0 it is a vector now, or was one already      2 wrong usage
  1 refused: reference or specimen fails it, or it never leads to the rule"""


def add_fuzz(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``fuzz``."""
    from kvlitmus.conformance.fuzz.budget import SEEDS, duration

    add_target(parser)
    how = parser.add_argument_group("how long, and with what")
    how.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        type=duration,
        help="time budget, such as 90s, 15m, 1h (default: 10m, if --steps isn't given)",
    )
    how.add_argument("--seconds", dest="seconds", metavar="N", type=duration, help=argparse.SUPPRESS)
    how.add_argument("--steps", metavar="N", type=common.whole_number(1, 10**12), help="step budget")
    how.add_argument(
        "--workers",
        metavar="N",
        type=common.whole_number(1, 64),
        default=common.default_jobs(),
        help="worker processes (default: one per core)",
    )
    how.add_argument("--corpus", metavar="DIR", help="the campaign's folder (default: .kvlitmus/fuzz/TARGET)")
    how.add_argument(
        "--seed",
        metavar="N",
        type=common.whole_number(0, SEEDS),
        help="makes a campaign of one worker and a step budget repeatable (default: another one each time)",
    )
    how.add_argument("--page-size", metavar="1,4", type=common.page_sizes, help="only these page sizes")
    how.add_argument(
        "--config",
        metavar="FIELD=VALUE,…",
        type=common.config_filter,
        action="append",
        default=[],
        help="only configurations with these values",
    )
    how.add_argument("--depth", metavar="0..3", type=common.whole_number(0, 3), default=3, help="how deep to observe")
    common.add_limits(how)
    how.add_argument("--plain", action="store_true", help="plain random schedules, not guided by what they reach")
    add_outcome(parser)


def add_outcome(parser: argparse.ArgumentParser) -> None:
    """The canary, and what to report."""
    from kvlitmus.conformance.fuzz.canary import DEFAULT

    bird = parser.add_argument_group("the canary, a planted bug that must be found").add_mutually_exclusive_group()
    bird.add_argument(
        "--canary",
        metavar="NAME",
        default=DEFAULT,
        help=f"which mutant it is (default: {DEFAULT}; a null mutant shows the alarm)",
    )
    bird.add_argument("--no-canary", action="store_true", help="without one")
    what = parser.add_argument_group("what to report")
    what.add_argument(
        "--baseline", metavar="FILE", help="known violations (TOML), as for run; they rest and don't fail"
    )
    what.add_argument(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        help="write a summary: .json (schema in the package) or .md",
    )
    what.add_argument("--issue", metavar="FILE", help="write the text of an issue, if something new was found")
    what.add_argument("--quiet", action="store_true", help="only the summary")
    add_color(what)


def add_promote(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``promote``."""
    parser.add_argument("file", metavar="FINDING", help="a saved failure with a schedule")
    parser.add_argument("--into", metavar="DIR", help="where vectors are kept (default: the set of the package)")
    parser.add_argument("--why", metavar="TEXT", default="", help="a sentence: what the vector is about")
    parser.add_argument("--link", metavar="URL", default="", help="where the bug is reported")
    add_color(parser)
