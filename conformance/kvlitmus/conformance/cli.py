"""The command ``kvlitmus``: reads the command line and hands over to one of the subcommands.

Each subcommand is a module of :mod:`kvlitmus.conformance.commands`, imported only when it is
called, so that ``kvlitmus --help`` is quick.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from kvlitmus.conformance.commands.common import TargetFailed, UsageError, add_color, add_target, closest, version

DESCRIPTION = """\
Puts a KV cache to the test: plays calls against it, judges every answer by the rules of the
specification, and shows for each broken rule the shortest call sequence that breaks it."""

EXAMPLES = """\
examples:
  kvlitmus run                               judge the built-in cache
  kvlitmus run my_cache.kvlitmus:target      judge yours, by its adapter
  kvlitmus run --pack tree --page-size 1,16  some rules, some configurations
  kvlitmus run --report out.json --report out.md --baseline known.toml
  kvlitmus smoke my_cache.kvlitmus:target    a quick look while the adapter is being written
  kvlitmus replay .kvlitmus/failures/TREE-03-1a2b3c4d.json
  kvlitmus rules TREE-03                     what a rule says, and where it comes from
  kvlitmus mutants                           which known bugs the suite catches

exit codes:
  0 every rule that applies holds      1 a rule is violated, or a stale baseline
  2 wrong usage                        3 the adapter or the harness failed
  4 inconclusive or not exercised      130 interrupted; the report so far is valid
  Of several, the first of 130, 1, 3, 4 that fits."""

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


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line and a hint, exit code 2."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Complain as all of kvlitmus does."""
        raise UsageError(f"{message} ('{self.prog} --help' explains)")


def parser(chosen: str = "") -> Parser:
    """The parser; only the chosen subcommand gets its arguments, the others their line of help."""
    formatter = argparse.RawDescriptionHelpFormatter
    top = Parser(prog="kvlitmus", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=formatter)
    top.add_argument("--version", action="version", version=f"kvlitmus {version()}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, (about, add, epilog) in COMMANDS.items():
        sub = commands.add_parser(
            name, help=about, description=about[0].upper() + about[1:] + ".", epilog=epilog, formatter_class=formatter
        )
        if name == chosen:
            add(sub)
    return top


def add_run(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``run``."""
    from kvlitmus.conformance.commands import common
    from kvlitmus.conformance.plan import STEPS

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
    how = parser.add_argument_group("how to run")
    how.add_argument("--page-size", metavar="1,4", type=common.page_sizes, help="only these page sizes")
    how.add_argument(
        "--config",
        metavar="FIELD=VALUE,…",
        type=common.config_filter,
        action="append",
        default=[],
        help="only configurations with these values (page_size, pages, policy, bigram, pool)",
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
    what = parser.add_argument_group("what to report")
    what.add_argument("--list", action="store_true", help="list rules and items; run nothing")
    what.add_argument("--baseline", metavar="FILE", help=BASELINE_HELP)
    what.add_argument(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        help="write a report: .json (schema in the package) or .md",
    )
    what.add_argument(
        "--failures",
        metavar="DIR",
        default=".kvlitmus/failures",
        help="where counterexamples are saved (default: .kvlitmus/failures)",
    )
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
    from kvlitmus.conformance.commands import common

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


def add_replay_trace(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``replay-trace``."""
    from kvlitmus.conformance.trace.command import add_arguments

    add_arguments(parser)


COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], str]] = {
    "run": ("judge a cache: a verdict per rule", add_run, RUN_EXAMPLES),
    "smoke": ("a quick look at a target: can it be made, what does it offer", add_smoke, ""),
    "replay": ("play a saved failure again, step by step", add_replay, "exit codes: 1 it still occurs, 0 it does not"),
    "rules": ("list rules, or explain some", add_rules, ""),
    "mutants": ("put known bugs into the built-in cache and see which rules catch them", add_mutants, ""),
    "replay-trace": ("run a trace of real requests through a cache", add_replay_trace, ""),
}

MODULES = {"replay-trace": ("kvlitmus.conformance.trace.command", "run")}


def dispatch(argv: Sequence[str]) -> int:
    """Run the subcommand that the command line names."""
    chosen = next((word for word in argv if not word.startswith("-")), "")
    if chosen and chosen not in COMMANDS:
        raise UsageError(f"there is no command {chosen!r}{closest(chosen, COMMANDS)} ('kvlitmus --help' lists them)")
    top = parser(chosen)
    if not argv:
        top.print_help()
        return 2
    args = top.parse_args(argv)
    if args.command is None:
        raise UsageError("a command is missing ('kvlitmus --help' lists them)")
    module, function = MODULES.get(chosen, (f"kvlitmus.conformance.commands.{chosen}", "main"))
    code = getattr(importlib.import_module(module), function)(args)
    return int(code)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code and never shows a traceback for a mistake of the user."""
    from kvlitmus.conformance.report.style import soften

    soften(sys.stdout)
    soften(sys.stderr)
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = dispatch(words)
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"kvlitmus: {error}", file=sys.stderr)
        return 2
    except TargetFailed as error:
        print(f"kvlitmus: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("kvlitmus: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone; nothing more can be said, and Python must not try at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception:  # noqa: BLE001  # whatever it is, the exit code must not look like a verdict
        import traceback

        traceback.print_exc()
        print("kvlitmus: this is a defect of kvlitmus itself, not of the cache; please report it", file=sys.stderr)
        return 3
    except SystemExit as ended:  # --help and --version
        return ended.code if isinstance(ended.code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
