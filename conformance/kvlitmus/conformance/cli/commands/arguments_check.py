"""The arguments of ``check``."""

from __future__ import annotations

import argparse

from kvlitmus.conformance.cli.commands import common
from kvlitmus.conformance.cli.commands.common import add_color

CHECK_EXAMPLES = """\
examples:
  kvlitmus check trace.jsonl                 judge what was recorded, up to the first broken rule
  kvlitmus check trace.jsonl.gz --keep-going all broken rules, each once
  zcat old.gz | kvlitmus check - --json      from a pipe, as JSON (the form of a report of 'run')

exit codes:
  0 every rule that applies holds            1 a rule is violated, or the engine broke the contract
  2 wrong usage, or a line that is no call   3 the trace contradicts itself, or upsets the judge
  4 what there is holds, but the trace breaks off, or has nothing to judge
  130 interrupted"""


def add_check(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``check``."""
    parser.add_argument("file", metavar="TRACE", help="a recorded trace: JSON Lines, also with gzip; - for stdin")
    parser.add_argument(
        "--rule", metavar="ID", action="append", default=[], help="only these rules (repeat, or commas)"
    )
    parser.add_argument("--pack", metavar="P", action="append", default=[], help="only the rules of these packs")
    parser.add_argument(
        "--depth",
        metavar="0..3",
        type=common.whole_number(0, 3),
        default=3,
        help="look no deeper than this (default: as deep as was recorded)",
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="after a broken rule go on and judge by the other rules"
    )
    parser.add_argument(
        "--ignore-unknown", action="store_true", help="skip calls that this version can't judge, and count them"
    )
    parser.add_argument(
        "--window",
        metavar="N",
        type=common.whole_number(1, 10_000),
        default=20,
        help="how many calls to show before what was found (default: 20)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON and nothing else")
    common.add_verbose(parser)
    add_color(parser)
