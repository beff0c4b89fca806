"""The arguments of the subcommands around a run: writing an adapter, reading and comparing reports."""

from __future__ import annotations

import argparse

from kvlitmus.conformance.cli.commands.common import add_color

INIT_EXAMPLES = """\
examples:
  kvlitmus init-adapter my_cache.py                        pool, tree, locks, evict
  kvlitmus init-adapter my_cache.py --ports pool,counters  what the cache really has
  kvlitmus init-adapter my_cache.py --ports all            everything, to delete what doesn't apply
  kvlitmus init-adapter --list                             the ports, and what each is about

then fill it in, and
  kvlitmus smoke my_cache:target    a quick look while it is being written
  kvlitmus run my_cache:target      the verdict

exit codes: 0 written, 2 wrong usage (an existing file is replaced with --force only)"""

REPORT_EXAMPLES = """\
examples:
  kvlitmus report out.json                        show it again
  kvlitmus report out.json --junit out.xml        for readers of JUnit files
  kvlitmus report out.json --markdown "$GITHUB_STEP_SUMMARY"

exit codes: 0, whatever the verdicts are; 2 the file is no report, or a form can't be written"""

DIFF_EXAMPLES = """\
examples:
  kvlitmus run --report before.json
  kvlitmus run --report after.json        with another version of the cache
  kvlitmus diff before.json after.json

What the two runs differ in (target, versions, profile, options, configurations, digests of rules)
comes first: other verdicts may come from that. A rule is fixed only if it was judged again and
passed; one that passed and is not judged any more got worse. Numbers decide nothing.

exit codes: 0 the same, or only better; 1 something got worse; 2 a file is no report"""

JUNIT_HELP = "write JUnit XML: a test case per rule, a suite per pack"
MARKDOWN_HELP = "write a short summary in Markdown; appended if FILE is the one that GITHUB_STEP_SUMMARY names"


def add_init_adapter(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``init-adapter``."""
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        help="the file to write, a module's name with .py (default: cache_adapter.py)",
    )
    parser.add_argument(
        "--ports",
        metavar="PORT,PORT,…",
        action="append",
        default=[],
        help="the ports to fill in (repeat, or commas; 'all' for all; default: pool,tree,locks,evict)",
    )
    parser.add_argument("--name", metavar="NAME", help="what the cache is called (default: from the file's name)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument("--list", action="store_true", help="list the ports; write nothing")


def add_forms(group: argparse._ActionsContainer) -> None:
    """In which other forms a report is wanted."""
    group.add_argument("--junit", metavar="FILE", help=JUNIT_HELP)
    group.add_argument("--markdown", metavar="FILE", help=MARKDOWN_HELP)


def add_report(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``report``."""
    parser.add_argument("file", metavar="FILE.json", help="what 'kvlitmus run --report FILE.json' wrote")
    add_forms(parser)
    add_color(parser)


def add_diff(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``diff``."""
    parser.add_argument("a", metavar="A.json", help="the earlier report")
    parser.add_argument("b", metavar="B.json", help="the later report")
    parser.add_argument("--json", action="store_true", help="as JSON (schema in the package)")
    add_color(parser)
