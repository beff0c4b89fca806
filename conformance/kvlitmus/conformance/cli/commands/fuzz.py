"""``kvlitmus fuzz``: schedules without end, chosen by what they reach, until the budget is spent."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import secrets
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kvlitmus.conformance.cli.commands import common, session
from kvlitmus.conformance.cli.commands.common import TargetFailed, UsageError
from kvlitmus.conformance.cli.commands.run import baselines_of, check_issue, check_report, now
from kvlitmus.conformance.fuzz import came as sessions
from kvlitmus.conformance.fuzz import canary as canaries
from kvlitmus.conformance.fuzz import issue, summary
from kvlitmus.conformance.fuzz.budget import SEEDS, Budget
from kvlitmus.conformance.fuzz.campaign import Campaign
from kvlitmus.conformance.fuzz.corpus import Corpus
from kvlitmus.conformance.fuzz.dedupe import Known
from kvlitmus.conformance.fuzz.display import Display, Quietly
from kvlitmus.conformance.fuzz.job_runner import JobRunner
from kvlitmus.conformance.fuzz.store import Store, StoreError
from kvlitmus.conformance.generate.schedule import table
from kvlitmus.conformance.isolation.integrity import JudgeChanged
from kvlitmus.conformance.isolation.supervisor import TargetError
from kvlitmus.conformance.isolation.worker_pool import WorkerPool, sweep
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report import document
from kvlitmus.conformance.report.style import style_of
from kvlitmus.conformance.run import baseline as baselines
from kvlitmus.conformance.run import failures
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.support import ending, files
from kvlitmus.conformance.support.text import closest, harmless
from kvlitmus.conformance.support.version import version
from kvlitmus.mutants.registry import all_mutants

LONGEST = 80
"""So many characters of a target's name are in that of its folder; of a longer one a digest tells it from others."""

SHRINK_SECONDS = 30.0
"""How long one counterexample may be shrunk: longer than in a run, since a night has time."""

SECONDS = 600.0
"""How long a campaign takes if nobody says."""


def main(args: argparse.Namespace) -> int:
    """Run a campaign; returns the exit code."""
    check_shard(args)
    known = baselines_of(args.baseline)
    check_report(args.report)
    check_issue(args.issue)
    if not args.no_canary and args.canary not in all_mutants():
        raise UsageError(f"there is no mutant {args.canary!r}{closest(args.canary, all_mutants())}")
    ref = session.find(args.target, args.python)
    style = style_of(sys.stdout, args.color)
    display = Display(sys.stdout, style, quiet=args.quiet)
    budget = Budget(seconds=args.seconds or (None if args.steps else SECONDS), steps=args.steps)
    seed = secrets.randbelow(SEEDS) if args.seed is None else args.seed
    folder = folder_of(args, ref.name)
    try:
        with Store(folder, display.say) as store:
            sweep(store.folder / "running", older=0.0)  # of a campaign that was killed: this one has the lock
            if args.shard and (store.folder / sessions.FILE).exists():
                print(f"shard {args.shard[0]}/{args.shard[1]}: nothing is missing in {harmless(folder)}")
                return 0
            if args.shard and args.corpus and not store.journal.exists():
                plant(Path(args.corpus), store, ref.name)
            outcome = begin(ref.name, store, known, settings_of(args, seed), flies(args))
            budget = budget.less(outcome.earlier) if args.shard else budget
            if not args.quiet:
                where = f"{harmless(outcome.target)} in {harmless(folder)}"
                print(f"kvlitmus {outcome.version}: fuzzing {where}, seed {seed}", flush=True)
            try:
                play(args, ref, outcome, budget, seed, display)
            except KeyboardInterrupt:
                outcome.interrupted = True
            except JudgeChanged as error:
                outcome.broken_off, outcome.changed = str(error), True
            except OSError as error:
                outcome.broken_off = f"{harmless(folder)}: {harmless(error.strerror or error)}"
            with ending.reporting():
                display.clear()
                if args.shard and outcome.campaign is not None and not outcome.interrupted:
                    sessions.write(store.folder, outcome.campaign.came(), about(outcome))
                told = write(args, outcome)
                for line in [*summary.lines(outcome, every=args.all), *told]:
                    print(style.cut(line))
            return outcome.exit_code if args.shard is None else shard_code(outcome)
    except StoreError as error:
        raise UsageError(str(error)) from None
    except TargetError as error:
        raise TargetFailed(str(error)) from None


def check_shard(args: argparse.Namespace) -> None:
    """Refuse what makes no sense together, before anything is started."""
    if bool(args.shard) != bool(args.out):
        raise UsageError("--shard I/N and --out DIR belong together: the folder keeps the shards for 'kvlitmus merge'")
    if args.shard and (args.report or args.issue):
        raise UsageError("a shard has no summary: give reports and issues to 'kvlitmus merge'")


def folder_of(args: argparse.Namespace, name: str) -> Path:
    """The folder of the campaign."""
    if args.shard:
        return Path(args.out) / f"fuzz-{args.shard[0]}-of-{args.shard[1]}"
    if args.corpus:
        return Path(args.corpus)
    called, digest = re.sub(r"[^\w.-]+", "-", name), hashlib.sha256(os.fsencode(name)).hexdigest()
    return Path(".kvlitmus/fuzz") / (called if len(called) <= LONGEST else f"{called[:LONGEST]}-{digest[:8]}")


def flies(args: argparse.Namespace) -> bool:
    """Whether the canary is played here: of shards, by the first alone."""
    return not args.no_canary and (args.shard is None or args.shard[0] == 1)


def plant(corpus: Path, store: Store, target: str) -> None:
    """Begin a shard with what the campaign in another folder has kept and found; that folder is only read."""
    reported = []
    for name in ("corpus", "findings"):
        for path in sorted((corpus / name).glob(f"*{failures.SUFFIX}")):
            files.write(store.folder / name / path.name, files.read(path, failures.MAX_BYTES), lasting=True)
            reported += [path.name] if name == "findings" else []
    store.note("began", target=target)
    store.note("summary", files=reported)


def about(outcome: summary.CampaignSession) -> dict[str, Any]:
    """What is to be known of a shard beside what came of it."""
    return {
        "target": outcome.target,
        "target_version": outcome.target_version,
        "python": outcome.python,
        "settings": outcome.settings,
        "canary": None if outcome.canary is None else asdict(outcome.canary),
        "canary_wanted": outcome.canary_wanted,
        "broken_off": outcome.broken_off,
        "changed": outcome.changed,
        "found": {
            one.path.name: {"hits": one.hits, "leads": one.leads, "steady": one.steady} for one in outcome.distinct
        },
    }


def shard_code(outcome: summary.CampaignSession) -> int:
    """The exit code of a shard: whether it was played.  What it found, merging says."""
    if outcome.interrupted:
        return ending.exit_code()
    return 3 if outcome.broken_off or outcome.campaign is None else 0


def settings_of(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """How a campaign is played, for its summary."""
    return {
        "seed": seed,
        "seconds": args.seconds,
        "steps": args.steps,
        "workers": args.workers,
        "depth": args.depth,
        "guided": not args.plain,
        "python": args.python or "",
        "configs": [],
    }


def begin(
    name: str, store: Store, known: tuple[baselines.Entry, ...] | None, settings: dict[str, Any], canary: bool
) -> summary.CampaignSession:
    """What there is to say before anything was played; refuses the folder of another target."""
    told = list(store.told())
    others = [line["target"] for line in told if line.get("what") == "began" and isinstance(line.get("target"), str)]
    if others and others[-1] != name:
        raise UsageError(
            f"{store.folder}: this folder belongs to a campaign on {harmless(others[-1], 100)!r}; choose another one "
            f"(its schedules serve any target: copy its folder 'corpus')"
        )
    entries = known or ()
    expired = [entry for entry in entries if baselines.is_expired(entry, version())]
    return summary.CampaignSession(
        target=name,
        target_version="",
        python="",
        version=version(),
        date=now(),
        settings=settings,
        store=store,
        canary_wanted=canary,
        known=frozenset(entry.key for entry in entries if entry not in expired),
        expired=tuple(f"{entry.cause} ({entry.rule})" for entry in expired),
        earlier=summary.totals(told),
    )


def play(
    args: argparse.Namespace, ref: Any, outcome: summary.CampaignSession, budget: Budget, seed: int, display: Display
) -> None:
    """The canary, then the target."""
    store = outcome.store
    found = session.ask(ref, session.limits_of(args))
    outcome.target_version, outcome.python = found.version, found.info.versions.get("python", "")
    configs = common.pick_configs(found.configs, args.page_size, args.config)
    kinds = kinds_of(found, configs)
    outcome.settings["configs"] = [config.label for config in configs if kinds.get(config.label)]
    if flies(args):
        outcome.canary = canaries.fly(
            args.canary,
            store=store,
            listener=Quietly(display.stream, display.style, quiet=args.quiet, about=f"canary {args.canary}: "),
            workers=args.workers,
            rng=random.Random(f"canary {seed}"),
            seconds=budget.seconds,
        )
    rng = random.Random(seed if args.shard is None else f"{seed} {args.shard}")
    with WorkerPool(ref, replace(found.limits, deaths=0), store.folder / "running") as pool:
        outcome.campaign = campaign = Campaign(
            target=ref.name,
            runner=JobRunner(pool, args.workers),
            corpus=Corpus(rng, configs, kinds, guided=not args.plain),
            known=Known(rng, [rule for rule, _ in outcome.known]),
            store=store,
            budget=budget,
            options=Options(depth=args.depth, shrink_seconds=SHRINK_SECONDS),
            listener=display,
        )
        campaign.run()


def kinds_of(found: session.Session, configs: tuple[Config, ...]) -> dict[str, tuple[str, ...]]:
    """The operations that a target can do, by the label of the configuration.

    Configurations that were asked for beyond the target's own count as able to do all: what a cache has no
    port for is left out when it is played.
    """
    has = found.info.capabilities
    refused = found.info.unsupported.keys() | found.info.errors.keys()
    return {one.label: table(has.get(one.label, found.capabilities)) for one in configs if one.label not in refused}


def write(args: argparse.Namespace, outcome: summary.CampaignSession) -> list[str]:
    """Write the reports that were asked for; what to say of them.  One that can't be written is part of the outcome."""
    told: list[str] = []
    if args.issue and (text := issue.text(outcome)):
        told += put(outcome, "issue", Path(args.issue), text)
    before = len(outcome.unwritten)
    for _ in range(2):  # once more if one can't be written: the others say so then
        for name in args.report:
            plain = issue.page(outcome) if Path(name).suffix == ".md" else document.dump(summary.document(outcome))
            told += put(outcome, "report", Path(name), plain)
        if len(outcome.unwritten) == before:
            break
    with suppress(OSError):  # then the next session tells of these findings once more
        outcome.store.note("summary", exit=outcome.exit_code, files=[one.path.name for one in outcome.distinct])
    return list(dict.fromkeys(told))


def put(outcome: summary.CampaignSession, what: str, path: Path, text: str) -> list[str]:
    """Write a file; what to say of it."""
    try:
        files.write(path, text)
    except OSError as error:
        outcome.unwritten[str(path)] = f"{harmless(path)}: {files.reason(error)}"
        return []
    return [f"{what} in {harmless(path)}"]
