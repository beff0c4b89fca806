"""The command ``kvlitmus``: reads the command line and hands over to one of the subcommands.

Each subcommand is a module of :mod:`kvlitmus.conformance.cli.commands`, imported only when it is
called, so that ``kvlitmus --help`` is quick.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from kvlitmus.conformance.cli.commands import arguments
from kvlitmus.conformance.cli.commands.common import TargetFailed, UsageError
from kvlitmus.conformance.support.text import closest, harmless
from kvlitmus.conformance.support.version import version

MESSAGE = 4_000
"""The longest message, in characters."""

DESCRIPTION = """\
Puts a KV cache to the test: plays calls against it, judges every answer by the rules of the
specification, and shows for each broken rule a call sequence that breaks it, shrunk."""

EXAMPLES = """\
examples:
  kvlitmus run                               judge the built-in cache
  kvlitmus init-adapter my_cache.py          write an adapter for yours, to fill in
  kvlitmus run my_cache:target               judge yours, by its adapter
  kvlitmus run --pack tree --page-size 1,16  some rules, some configurations
  kvlitmus run --report out.json --report out.md --baseline known.toml
  kvlitmus smoke my_cache.kvlitmus:target    a quick look while the adapter is being written
  kvlitmus replay .kvlitmus/failures/TREE-03-1a2b3c4d.jsonl
  kvlitmus check trace.jsonl                 judge what your engine's cache did, from a log
  kvlitmus rules TREE-03                     what a rule says, and where it comes from
  kvlitmus diff before.json after.json       what changed between two reports
  kvlitmus mutants                           which known bugs the suite catches

exit codes:
  0 every rule that applies holds      1 a rule is violated, or a stale baseline
  2 wrong usage                        3 the adapter or the harness failed
  4 inconclusive or not exercised      130 interrupted; the report so far is valid
  143, 129 the same, by SIGTERM or SIGHUP
  If several apply: 130 before 1 before 3 before 4."""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line and a hint, exit code 2; options are written out."""

    def __init__(self, **settings: Any) -> None:
        self.inner: Parser | None = None
        """The parser of the chosen subcommand."""
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> None:  # type: ignore[override]
        """Complain as all of kvlitmus does."""
        raise UsageError(f"{message} ('{self.prog} --help' explains)")

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> argparse.Namespace:  # type: ignore[override]
        """All words, or what is wrong with the first that nobody knows."""
        found: argparse.Namespace
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            raise (self.inner or self).not_known(rest)
        return found

    def not_known(self, words: Sequence[str]) -> UsageError:
        """What to say of words that no option and no argument took."""
        option = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
        if not option:
            return UsageError(f"unexpected argument {words[0]!r} ('{self.prog} --help' explains)")
        names = [name for one in self._actions for name in one.option_strings]
        near = [name for name in names if name.startswith(option)] or difflib.get_close_matches(option, names, 1, 0.75)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return UsageError(f"there is no option {option}{hint} ('{self.prog} --help' lists them)")


def parser(chosen: str = "") -> Parser:
    """The parser; only the chosen subcommand gets its arguments, the others their line of help."""
    top = Parser(prog="kvlitmus", description=DESCRIPTION, epilog=EXAMPLES)
    top.add_argument("--version", action="version", version=f"kvlitmus {version()}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, (about, add, epilog) in COMMANDS.items():
        sub = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".", epilog=epilog)
        if name == chosen:
            add(sub)
            top.inner = sub
    return top


COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], str]] = {
    "run": ("judge a cache: a verdict per rule", arguments.add_run, arguments.RUN_EXAMPLES),
    "smoke": ("a quick look at a target: can it be made, what does it offer", arguments.add_smoke, ""),
    "replay": (
        "play a saved failure again, step by step",
        arguments.add_replay,
        "exit codes: 1 it still occurs, 0 it does not",
    ),
    "rules": ("list rules, or explain some", arguments.add_rules, ""),
    "init-adapter": (
        "write a commented adapter for your cache, to fill in",
        arguments.add_init_adapter,
        arguments.INIT_EXAMPLES,
    ),
    "report": (
        "show a saved report, or write it in another form",
        arguments.add_report,
        arguments.REPORT_EXAMPLES,
    ),
    "diff": (
        "compare two reports: what got worse, what is fixed",
        arguments.add_diff,
        arguments.DIFF_EXAMPLES,
    ),
    "compare": (
        "play the same calls on two caches: is the second the first?",
        arguments.add_compare,
        arguments.COMPARE_EXAMPLES,
    ),
    "fuzz": (
        "search for violations for hours, guided by coverage",
        arguments.add_fuzz,
        arguments.FUZZ_EXAMPLES,
    ),
    "merge": (
        "make one report of shards that were played on many machines",
        arguments.add_merge,
        arguments.MERGE_EXAMPLES,
    ),
    "promote": (
        "make a finding part of the deterministic set",
        arguments.add_promote,
        arguments.PROMOTE_EXAMPLES,
    ),
    "mutants": ("plant known bugs in the built-in cache and see which rules catch them", arguments.add_mutants, ""),
    "check": (
        "judge a recorded trace, without driving anything",
        arguments.add_check,
        arguments.CHECK_EXAMPLES,
    ),
}

MOVED_COMMANDS = {
    "replay-trace": "now 'python -m benchmarks.trace', in a checkout of kvlitmus",
}
"""Commands of version 0.1 that are elsewhere now."""


def dispatch(argv: Sequence[str]) -> int:
    """Run the subcommand that the command line names."""
    chosen = next((word for word in argv if not word.startswith("-")), "")
    if chosen in MOVED_COMMANDS:
        raise UsageError(f"{chosen} is {MOVED_COMMANDS[chosen]}")
    if chosen and chosen not in COMMANDS:
        raise UsageError(f"there is no command {chosen!r}{closest(chosen, COMMANDS)} ('kvlitmus --help' lists them)")
    top = parser(chosen)
    if not argv:
        top.print_help()
        return 2
    args = top.parse_args(argv)
    if args.command is None:
        raise UsageError("a command is missing ('kvlitmus --help' lists them)")
    command = importlib.import_module(f"kvlitmus.conformance.cli.commands.{chosen.replace('-', '_')}")
    return int(command.main(args))


def main(argv: Sequence[str] | None = None, run: Callable[[Sequence[str]], int] = dispatch) -> int:
    """The entry point; returns the exit code and never shows a traceback for a mistake of the user.

    ``run`` is what the words are for, if not the subcommands.
    """
    from kvlitmus.conformance.cli import output
    from kvlitmus.conformance.report.style import soften
    from kvlitmus.conformance.support import ending

    words = sys.argv[1:] if argv is None else list(argv)
    with output.steady() as out, ending.kindly():
        soften(sys.stdout)
        soften(sys.stderr)
        try:
            code = attempted(words, run)
            sys.stdout.flush()
        except BrokenPipeError:  # whoever read the output has gone; nothing more can be said
            with contextlib.suppress(OSError, ValueError):
                output.to_nowhere(sys.stdout.fileno())
            return 141
        except KeyboardInterrupt:
            print("kvlitmus: interrupted", file=sys.stderr)
            return ending.exit_code()
        if out.failed is not None:
            print(f"kvlitmus: standard output can't be written: {out.failed.strerror}", file=sys.stderr)
            return code or 3
        return code


def attempted(words: Sequence[str], run: Callable[[Sequence[str]], int]) -> int:
    """Run the command; what goes wrong is said in one line, and the exit code follows from it."""
    try:
        if sys.flags.optimize > 1:
            raise UsageError("expected Python with docstrings, which are the rules' sentences (got -OO)")
        return run(words)
    except UsageError as error:
        print(f"kvlitmus: {harmless(error, MESSAGE)}", file=sys.stderr)
        return 2
    except TargetFailed as error:
        print(f"kvlitmus: {harmless(error, MESSAGE)}", file=sys.stderr)
        return 3
    except BrokenPipeError:
        raise
    except Exception:  # noqa: BLE001  # whatever it is, the exit code must not look like a verdict
        import traceback

        traceback.print_exc()
        print("kvlitmus: this is a defect of kvlitmus itself, not of the cache; please report it", file=sys.stderr)
        return 3
    except SystemExit as ended:  # --help and --version
        return ended.code if isinstance(ended.code, int) else 0
