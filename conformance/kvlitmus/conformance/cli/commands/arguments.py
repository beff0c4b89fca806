"""The arguments of the subcommands; a subcommand's own module is imported only when it runs."""

from __future__ import annotations

import argparse

from kvlitmus.conformance.cli.commands import common
from kvlitmus.conformance.cli.commands.common import add_color, add_target
from kvlitmus.conformance.isolation.remote.kits import KITS

RUN_EXAMPLES = """\
examples:
  kvlitmus run                                    the built-in cache, all rules
  kvlitmus run reference --jobs 2                 the reference model, two workers
  kvlitmus run my_target.py -x                    your own, up to the first cause
  kvlitmus run my_cache.kvlitmus:target --depth 1 without looking into it
  kvlitmus run --rule TREE-03,LOCK-02 --seed 7    two rules, other schedules
  kvlitmus run --config page_size=4,policy=lfu    one configuration
  kvlitmus run --list --pack evict                what would be run
  kvlitmus run my_cache:target --on ray --shards 64 --out shards
  kvlitmus run my_cache:target --shard 3/16 --out shards       and on the last machine:
  kvlitmus merge shards --target my_cache:target

A rule passes only if it was evaluated and never broken. It is not applicable if it needs what the
target lacks, and blocked if runs ended at another broken rule before they got there. A run with
fewer steps, fewer configurations or no litmus tests is shortened: what it didn't exercise is shown
and fails nothing."""

BASELINE_HELP = "known causes (TOML: [[known]] with rule, cause, reason, link, optional until); stale entries fail"


def add_run(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``run``."""
    add_target(parser)
    which = parser.add_argument_group("what to judge")
    add_chosen(which)
    which.add_argument("--strength", choices=("must", "should"), type=str.lower, help="only rules of this strength")
    add_depth(which, "how much to observe: 0 answers, 1 counters, 2 events, 3 snapshots (default: 3)")
    which.add_argument(
        "--force-misuse", action="store_true", help="try misuse even where the profile says it is undefined"
    )
    add_how(parser.add_argument_group("how to run"))
    add_many(parser.add_argument_group("many machines (the page of that name in the documentation)"))
    add_what(parser.add_argument_group("what to report"))


def add_chosen(group: argparse._ActionsContainer) -> None:
    """Which rules to judge."""
    group.add_argument("--rule", metavar="ID", action="append", default=[], help="only these rules (repeat, or commas)")
    group.add_argument("--pack", metavar="P", action="append", default=[], help="only the rules of these packs")


def add_depth(group: argparse._ActionsContainer, about: str) -> None:
    """How deep to observe."""
    group.add_argument("--depth", metavar="0..3", type=common.whole_number(0, 3), default=3, help=about)


def add_configs(group: argparse._ActionsContainer) -> None:
    """Which configurations to judge in."""
    group.add_argument("--page-size", metavar="1,4", type=common.page_sizes, help="only these page sizes")
    group.add_argument(
        "--config",
        metavar="FIELD=VALUE,…",
        type=common.config_filter,
        action="append",
        default=[],
        help="only configurations with these values (page_size, policy, host_pages, storage, …)",
    )


def add_seed(group: argparse._ActionsContainer, about: str) -> None:
    """Where the seeds of schedules begin."""
    group.add_argument("--seed", metavar="N", type=common.whole_number(0, 1 << 31), default=0, help=about)


MOST_JOBS = 64
"""One command drives so many processes at most."""


def add_jobs(group: argparse._ActionsContainer, option: str, what: str) -> None:
    """How many processes to use."""
    many = common.whole_number(1, MOST_JOBS, "start several, each with files of its own, on one machine or on many")
    about = f"{what} (default: one per core)"
    group.add_argument(option, metavar="N", type=many, default=common.default_jobs(), help=about)


def add_report_files(group: argparse._ActionsContainer, about: str) -> None:
    """Where a report is to be written, in its two forms."""
    group.add_argument("--report", metavar="FILE", action="append", default=[], help=about)


def add_steps(group: argparse._ArgumentGroup) -> None:
    """How much is drawn."""
    from kvlitmus.conformance.run.plan import STEPS

    group.add_argument(
        "--steps",
        metavar="N",
        type=common.whole_number(0, 100_000_000),
        default=STEPS,
        help=f"steps of random schedules per configuration (default: {STEPS})",
    )


def add_how(how: argparse._ArgumentGroup) -> None:
    """How to run."""
    add_configs(how)
    add_seed(how, "the first seed of the schedules (default: 0)")
    add_steps(how)
    add_jobs(how, "--jobs", "worker processes")
    how.add_argument(
        "-x",
        "--first",
        action="store_true",
        help="stop at the first cause, and shrink that alone (ten seconds at most)",
    )
    how.add_argument("--no-litmus", action="store_true", help="random schedules only")
    how.add_argument("--vectors", metavar="DIR", help="also play the vectors in this folder (see 'kvlitmus promote')")
    common.add_limits(how)


def add_many(many: argparse._ActionsContainer) -> None:
    """How to use more than one machine."""
    add_shard(many)
    many.add_argument(
        "--on",
        metavar="EXECUTOR",
        help="have it played in shards by processes of this machine (processes), by ray or by dask, and merged; "
        "ray:ADDRESS and dask:ADDRESS are clusters that are there already",
    )
    many.add_argument(
        "--shards", metavar="N", type=common.whole_number(1, 100_000), help="how many (default: four for each core)"
    )


def add_shard(many: argparse._ActionsContainer) -> None:
    """That only one shard is to be played, and where shards are kept."""
    many.add_argument(
        "--shard",
        metavar="I/N",
        type=shard_of,
        help="play the I-th of N shards and keep it in --out: the same command on other machines plays the others, "
        "'kvlitmus merge' makes one of all",
    )
    many.add_argument("--out", metavar="DIR", help="where shards are kept; what is there is not played again")


def shard_of(text: str) -> tuple[int, int]:
    """A type for argparse: which of how many shards."""
    from kvlitmus.conformance.shards.folder import part_of

    try:
        return part_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_what(what: argparse._ArgumentGroup) -> None:
    """What to report."""
    what.add_argument("--list", action="store_true", help="list rules and items; run nothing")
    what.add_argument(
        "--record",
        metavar="FILE",
        help="record the steps of litmus tests and of each configuration's first schedule (.xz), to be judged again",
    )
    add_verdicts(what)


def add_verdicts(what: argparse._ArgumentGroup) -> None:
    """What to say of the verdicts."""
    what.add_argument("--baseline", metavar="FILE", help=BASELINE_HELP)
    what.add_argument("--write-baseline", metavar="FILE", help="write the entries that make this run's causes known")
    add_report_files(what, "write a report: .json (schema in the package), .md, or .html, where each finding is drawn")
    add_forms(what)
    what.add_argument(
        "--failures",
        metavar="DIR",
        default=".kvlitmus/failures",
        help="where counterexamples are saved (default: .kvlitmus/failures)",
    )
    add_all(what)
    common.add_verbose(what)
    add_color(what)


def add_all(what: argparse._ArgumentGroup) -> None:
    """Whether each counterexample is shown in full."""
    what.add_argument("--all", action="store_true", help="show every counterexample in full, consequences too")


def add_replay(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``replay``."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="a saved failure, or a folder of them")
    parser.add_argument("--target", metavar="TARGET", help="replay on this target instead of the one in the file")
    parser.add_argument(
        "--python", metavar="PATH", help="the Python interpreter that has the cache (default: this one)"
    )
    parser.add_argument(
        "--html", metavar="FILE.html", help="draw what happened, step by step, as one page that needs no network"
    )
    add_color(parser)


def add_smoke(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``smoke``."""
    add_target(parser)
    common.add_verbose(parser)
    add_color(parser)


def add_rules(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``rules``."""
    parser.add_argument("names", nargs="*", metavar="ID|PACK", help="rules or packs (default: all)")
    parser.add_argument(
        "--ledger",
        action="store_true",
        help="for each call which rule answers which question; names are calls or rules",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as Markdown")
    add_color(parser)


def add_mutants(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``mutants``."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants (default: all)")
    parser.add_argument(
        "--adversaries",
        action="store_true",
        help="instead caches that are wrong in one cell of the ledger; names are families and calls",
    )
    parser.add_argument("--effects", action="store_true", help="those with one foreign effect beside a call as well")
    parser.add_argument(
        "--depth", metavar="N", action="append", type=int, choices=range(4), help="their depth of observation (repeat)"
    )
    parser.add_argument(
        "--rule", metavar="ID", action="append", default=[], help="only mutants that one of these rules must find"
    )
    parser.add_argument(
        "--steps",
        metavar="N",
        type=common.whole_number(1, 100_000_000),
        help="random steps per mutant (default: 20000, null mutants too)",
    )
    add_seed(parser, "the first seed (default: 0)")
    parser.add_argument("--random-only", action="store_true", help="random schedules only, no litmus tests")
    add_jobs(parser, "--jobs", "processes")
    parser.add_argument("--json", action="store_true", help="as JSON (the summary line goes to stderr)")
    add_color(parser)


INIT_EXAMPLES = """\
examples:
  kvlitmus init-adapter my_cache.py                        pool, tree, locks, evict, inspect
  kvlitmus init-adapter my_cache.py --ports pool,counters  what the cache really has
  kvlitmus init-adapter my_cache.py --ports all            everything, to delete what doesn't apply
  kvlitmus init-adapter --list                             the ports, and what each is about
  kvlitmus init-adapter my-cache --lang cpp                a cache in C++ (or rust, go, ts) behind a pipe

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

Differences between the runs themselves come first (target, versions, profile, options,
configurations, digests of rules), since changed verdicts may come from them. A rule is fixed only
if it was judged again and passed. One that passed and is no longer judged got worse. Numbers
decide nothing.

exit codes: 0 the same, or only better; 1 something got worse; 2 a file is no report"""

JUNIT_HELP = "write JUnit XML: a test case per rule, a suite per pack"
MARKDOWN_HELP = "write a short summary in Markdown; appended if FILE is the one that GITHUB_STEP_SUMMARY names"


def add_init_adapter(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``init-adapter``."""
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        help="the file to write, a module's name with .py (default: cache_adapter.py); with --lang, the folder",
    )
    parser.add_argument(
        "--lang",
        choices=KITS,
        help="what a cache in another language begins with: the protocol, and a cache that uses it",
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


COMPARE_EXAMPLES = """\
examples:
  kvlitmus compare my_cache:target exec:./my-cache     is the rewritten core the old one?
  kvlitmus compare before.jsonl.xz my_cache:target     what was recorded by 'run --record', and the cache now
  kvlitmus compare before.jsonl.xz after.jsonl.xz      two records, without any cache
  kvlitmus compare engine.jsonl my_cache:target        the calls that an engine's logger wrote, made on the cache
  kvlitmus compare a:target b:target --tape finding.jsonl

Both get the same calls, by the ports that both have. Where they first part is told with the call, both answers and what
was seen, and by whose right: a difference in law (a rule that one of them breaks), a legal choice (a field of the
profile), or a freedom (the rules leave it open). Which free slots were taken, and what jobs and pages are called, is no
difference.

exit codes:
  0 the same in all that was compared                  1 they part
  2 wrong usage                                        3 a target or the harness failed
  4 nothing could be compared                          130 interrupted; what was compared is told"""


def add_compare(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``compare``."""
    about = "a target, or a file of recorded plays (.jsonl, .jsonl.gz, .jsonl.xz)"
    parser.add_argument("a", metavar="A", help=f"the first cache: {about}")
    parser.add_argument("b", metavar="B", help=f"the second: {about}")
    parser.add_argument(
        "--python", metavar="PATH", help="the Python interpreter that has both caches (default: this one)"
    )
    which = parser.add_argument_group("what is played")
    which.add_argument(
        "--tape", metavar="FILE", help="what was played on this tape (default: litmus tests and schedules of 'run')"
    )
    add_configs(which)
    add_seed(which, "the first seed of the schedules (default: 0)")
    add_steps(which)
    which.add_argument("--no-litmus", action="store_true", help="random schedules only")
    add_depth(which, "how much to observe: 0 answers, 1 counters, 2 events, 3 snapshots (default: 3)")
    how = parser.add_argument_group("how")
    add_jobs(how, "--jobs", "worker processes for each")
    common.add_limits(how)
    how.add_argument("--json", metavar="FILE", help="also write what was found as JSON")
    add_color(how)


FUZZ_EXAMPLES = """\
examples:
  kvlitmus fuzz                                      the built-in cache, ten minutes
  kvlitmus fuzz my_cache:target --for 8h --corpus fuzz-corpus --report night.json --issue issue.md
  kvlitmus fuzz --steps 100000 --workers 1 --seed 7  repeatable
  kvlitmus fuzz my_cache:target --baseline known.toml only what isn't known fails

Everything that is reported is on disk already. After Ctrl-C or a kill the same command continues.

exit codes:
  0 nothing was found, and the canary was       1 a rule is violated, or an expired baseline
  2 wrong usage                                 3 the adapter or the harness failed
  4 the canary was not found                    130 interrupted; what was found is saved"""

PROMOTE_EXAMPLES = """\
examples:
  kvlitmus promote .kvlitmus/fuzz/specimen/findings/TREE-02-1a2b3c4d.jsonl --why "split keeps the locks"
  kvlitmus promote finding.jsonl --into my_vectors    and later: kvlitmus run --vectors my_vectors

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
        help="how long the target is played, such as 90s, 15m, 1h (default: 10m, if --steps isn't given); "
        "the canary comes before",
    )
    how.add_argument("--seconds", dest="seconds", metavar="N", type=duration, help=argparse.SUPPRESS)
    how.add_argument("--steps", metavar="N", type=common.whole_number(1, 10**12), help="step budget")
    add_jobs(how, "--workers", "worker processes")
    how.add_argument("--corpus", metavar="DIR", help="the campaign's folder (default: .kvlitmus/fuzz/TARGET)")
    how.add_argument(
        "--seed",
        metavar="N",
        type=common.whole_number(0, SEEDS),
        help="repeats a campaign that has one worker and a step budget (default: a new seed each time)",
    )
    add_configs(how)
    add_depth(how, "how much to observe")
    common.add_limits(how)
    how.add_argument("--plain", action="store_true", help="random schedules, not guided by coverage")
    add_shard(parser.add_argument_group("many machines: --corpus is where a shard begins, and is only read"))
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
    bird.add_argument("--no-canary", action="store_true", help="play no canary")
    what = parser.add_argument_group("what to report")
    what.add_argument("--baseline", metavar="FILE", help="known violations (TOML), as for run; they fail nothing")
    add_report_files(what, "write a summary: .json (schema in the package) or .md")
    what.add_argument("--issue", metavar="FILE", help="write the text of an issue if something new was found")
    what.add_argument("--quiet", action="store_true", help="only the summary")
    add_all(what)
    add_color(what)


def add_promote(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``promote``."""
    parser.add_argument("file", metavar="FINDING", help="a saved failure with a schedule")
    parser.add_argument("--into", metavar="DIR", help="where vectors are kept (default: the set of the package)")
    parser.add_argument("--why", metavar="TEXT", default="", help="a sentence: what the vector is about")
    parser.add_argument("--link", metavar="URL", default="", help="where the bug is reported")
    add_color(parser)


CHECK_EXAMPLES = """\
examples:
  kvlitmus check trace.jsonl                 judge what was recorded, up to the first broken rule
  kvlitmus check trace.jsonl.gz --keep-going all broken rules, each once
  zcat old.gz | kvlitmus check - --json      from a pipe, as JSON (the form of a report of 'run')
  kvlitmus check events.msgpack              KV events as an engine published them: parents first, names, gaps
  kvlitmus check events.jsonl --copies each  the same, read by somebody who counts copies

exit codes:
  0 every rule that applies holds            1 a rule is violated, or the engine broke the contract
  2 wrong usage, or a line that is no call   3 the trace contradicts itself, or upsets the judge
  4 what there is holds, but the file breaks off, has gaps, doesn't tell all, or has nothing to judge
  130 interrupted"""


def add_check(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``check``."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a tape (JSON Lines, also with gzip or xz), or a captured stream of KV events; - for stdin",
    )
    add_chosen(parser)
    add_depth(parser, "look no deeper than this (default: as deep as was recorded)")
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
    events = parser.add_argument_group(
        "KV events", "BlockStored, BlockRemoved, AllBlocksCleared as engines publish them"
    )
    events.add_argument(
        "--events", action="store_true", help="FILE has KV events (seen by its beginning, without this)"
    )
    events.add_argument(
        "--copies",
        choices=("one", "each"),
        default="one",
        help="whether a block's name stands for all its copies, as for routers that keep a set, or each copy counts",
    )
    events.add_argument(
        "--late", action="store_true", help="batches without numbers: the cache wasn't empty when they were captured"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON and nothing else")
    common.add_verbose(parser)
    add_color(parser)


MERGE_EXAMPLES = """\
examples:
  kvlitmus merge shards                            of 'kvlitmus run --shard': the verdicts
  kvlitmus merge shards --target my_cache:target   and counterexamples shrunk, as 'kvlitmus run' does
  kvlitmus merge a/shards b/shards --report out.json --junit out.xml
  kvlitmus merge night --into corpus --issue issue.md     of 'kvlitmus fuzz --shard': one campaign

A file starts nothing: nothing is played unless --target says on what.

exit codes: those of 'kvlitmus run', or of 'kvlitmus fuzz'; 2 a file is no shard, or one of another run;
  130 shards of a run are missing; 3 shards of a campaign are, and nothing was found"""


def add_merge(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``merge``."""
    parser.add_argument("folders", metavar="DIR", nargs="+", help="a folder with shards: what --out named")
    how = parser.add_argument_group("shards of run: how to shrink")
    how.add_argument("--target", metavar="TARGET", help="what was judged, to shrink counterexamples on it")
    how.add_argument("--python", metavar="PATH", help="the Python interpreter that has the cache (default: this one)")
    add_jobs(how, "--jobs", "worker processes")
    common.add_limits(how)
    fuzzed = parser.add_argument_group("shards of fuzz")
    fuzzed.add_argument(
        "--into",
        metavar="DIR",
        help="the folder of the campaign that they become: corpora by digest, findings by cause; the next night's "
        "shards begin with it (--corpus)",
    )
    fuzzed.add_argument("--issue", metavar="FILE", help="write the text of an issue if something new was found")
    add_verdicts(parser.add_argument_group("what to report"))
