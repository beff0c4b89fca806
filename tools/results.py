#!/usr/bin/env python3
"""The results: what the suite said about other people's caches, and what we make of it.

    .venv/bin/python tools/results.py             says what is wrong (exit code 1), and what is stale
    .venv/bin/python tools/results.py --run       makes the reports again that are stale or missing, two at a time
    .venv/bin/python tools/results.py --fuzz SUMMARY.json …     what campaigns broke takes the place of what they did

The reports in ``docs/results`` are the suite's own, in brief; ``classification.toml`` beside them says of each
violation what it is and why.  A violation that nobody classified is an error, and so is a
classification without its violation, a counterexample that no report refers to, and a snippet that
no classification names.  ``README.md``, written by hand, has a row for each finding.  A report that this tree would
not make (``stale``) counts for no verdict.

``fuzz.json`` says which campaigns there were, ``hazards.json`` how ``tools/hazards.py`` searched; what these broke is
in the folders of their counterexamples.  Names of targets after ``--run`` choose some of them.
``--fuzz`` takes the summaries of campaigns (``kvlitmus fuzz TARGET --steps N --seed S --workers 1 --report
SUMMARY.json``), plays their counterexamples again, and keeps those that break a rule which the target's report passes.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "conformance"))]

from kvlitmus.conformance.report import brief, build, document, saved  # noqa: E402
from kvlitmus.conformance.run import failures, plan, targets  # noqa: E402
from kvlitmus.spec.law.rule import in_force  # noqa: E402
from tools import corpus, results_page  # noqa: E402
from tools.results_page import ALL_RELEASES, Evidence, Judged, Pair, Report, broken_rules  # noqa: E402

FOLDER = ROOT / "docs" / "results"
README = FOLDER / "README.md"
SECONDS = 300
"""The longest that a counterexample of a campaign may take."""
SEARCHES = ("fuzz", "hazards")
"""The folders of the searches' counterexamples."""
CLASSES = ("bug", "declared choice", "outside the contract", "limit of the adapter")
REACHES = ("reachable in a server", "latent", "by direct call")
TARGETS = tuple(
    name
    for _, ends in results_page.GROUPS
    for name in results_page.targets_of(ends)
    if name in targets.KNOWN and name != "sglang-0.5.23"
)
"""The targets of the page; ``sglang-0.5.23`` is another name for its tree in Python."""


def reports(folder: Path = FOLDER) -> dict[str, Report]:
    """The committed reports by target, in the order of the tables."""
    found: dict[str, Report] = {}
    for path in folder.glob("*.json"):
        data = brief.whole(json.loads(path.read_text(encoding="utf-8")), folder)
        if isinstance(data, dict) and data.get("kind") == "kvlitmus report":
            found[data["stamps"]["target"]["name"]] = data
    return {name: found[name] for name in (*TARGETS, *sorted(found.keys() - set(TARGETS))) if name in found}


def stale(data: Report) -> list[str]:
    """Why a report isn't one that this tree would make; nothing, if it is."""
    stamps = data["stamps"]
    if stamps["target"]["name"] not in targets.KNOWN:
        return ["there is no such target"]
    ours, items = stamps_of(data)
    build_then = stamps.get("build") or "none"
    why = [f"of build {build_then}, this tree is {ours}"] if build_then != ours else []
    return why + ["of other items"] * (stamps.get("items") != items)


def stamps_of(data: Report) -> tuple[str, str]:
    """The build and the items of this tree, for what a report was asked for."""
    name, options = data["stamps"]["target"]["name"], data["options"]
    known, target = targets.KNOWN[name], corpus.target_here(name)
    configs = plan.configs_of(target)
    kinds = build.kinds_of(configs)
    items = plan.items(
        configs,
        target.profile,
        seed=options["seed"],
        steps=options["steps"],
        litmus=options["litmus"],
        force_misuse=options["force_misuse"],
    )
    return build.build_of(known.module, known.attribute, kinds), build.items_of(items, kinds)


def searched(folder: Path = FOLDER) -> dict[str, dict[Pair, dict[str, Any]]]:
    """What long searches broke: by search, target and rule, what the counterexample says; raises ``FailureError``."""
    found: dict[str, dict[Pair, dict[str, Any]]] = {kind: {} for kind in SEARCHES}
    for kind, pairs in found.items():
        for path in sorted(folder.glob(f"counterexamples/{kind}/*.jsonl")):
            one = failures.load(path)
            finding = {**one.finding, "label": one.config.label, "saved": f"docs/results/{path.relative_to(folder)}"}
            for rule in one.rules:
                pairs.setdefault((one.target, rule), finding)
    return found


def evidence(folder: Path = FOLDER) -> Evidence:
    """Everything that the page is made of."""
    found = reports(folder)
    path = folder / "fuzz.json"
    campaigns = json.loads(path.read_text(encoding="utf-8"))["campaigns"] if path.is_file() else ()
    why = {target: reasons for target, data in found.items() if (reasons := stale(data))}
    raw = tomllib.loads((folder / "classification.toml").read_text(encoding="utf-8"))
    unjudged = {(one["target"], one["rule"]): str(one["reason"]) for one in raw.get("unjudged", ())}
    return Evidence(reports=found, stale=why, searched=searched(folder), campaigns=campaigns, unjudged=unjudged)


def classification(folder: Path = FOLDER) -> list[Judged]:
    """The entries; raises ``ValueError`` for what has not the form."""
    data = tomllib.loads((folder / "classification.toml").read_text(encoding="utf-8"))
    entries = []
    for number, raw in enumerate(data["violation"], 1):
        fields: dict[str, Any] = {"links": []} | raw
        try:
            kind, reasoning = fields.pop("class"), fields.pop("reasoning").strip()
            lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
            said = lists["rules"]
            lists["rules"] = tuple(dict.fromkeys(map(in_force, said)))
            entry = Judged(**(fields | lists), kind=kind, reasoning=reasoning, said=said)
        except (KeyError, TypeError) as error:
            raise ValueError(f"classification.toml, violation {number}: {error}") from None
        for field, value, among in (("class", entry.kind, CLASSES), ("reach", entry.reach, REACHES)):
            if value not in among:
                raise ValueError(f"classification.toml, violation {number}: {field} must be one of {', '.join(among)}")
        entries.append(entry)
    return entries


def complaints(found: Evidence, entries: Sequence[Judged], folder: Path = FOLDER) -> list[str]:
    """What reports, classification, counterexamples and snippets do not agree about."""
    wrong: list[str] = []
    broken = found.broken
    said = [pair for entry in entries for pair in entry.pairs]
    unknown = {target for target, _ in said} - targets.KNOWN.keys()
    wrong += [f"{target}: {rule} is broken, and nobody classified it" for target, rule in sorted(broken - set(said))]
    wrong += [f"{target}: it is classified, and there is no such target" for target in sorted(unknown)]
    waiting = found.stale.keys() | (set(TARGETS) - found.reports.keys())  # their next report says
    idle = sorted(pair for pair in set(said) - broken if pair[0] not in waiting)
    wrong += [f"{target}: {rule} is classified, but not broken" for target, rule in idle]
    # Rules that are one now were several when they were classified, and had several causes.
    once = [(target, rule) for entry in entries for target in entry.targets for rule in entry.said or entry.rules]
    wrong += [
        f"{target}: {rule} is classified twice" for target, rule in sorted({p for p in once if once.count(p) > 1})
    ]
    for target, data in found.reports.items():
        if data["partial"] or data["exit_code"] not in (0, 1):
            wrong.append(f"{target}: the report is not of a whole run ({data['exit_meaning']})")
        # What a target asks to be judged in, it plays: what was declined would read as passed.
        declined = [(one["label"], one["declined"]) for one in data["configs"] if one["declined"]]
        wrong += [f"{target}: {label} was declined: {why}" for label, why in declined]
    told = {finding["saved"] for data in found.reports.values() for finding in data["findings"]}
    files = {
        f"docs/results/{path.relative_to(folder)}"
        for path in folder.glob("counterexamples/**/*.jsonl")
        if path.parent.name not in SEARCHES
    }
    wrong += apart(told, files, "report")
    snippets = {f"snippets/{path.name}" for path in folder.glob("snippets/*.py")}
    named = {f"snippets/{name}" for entry in entries for name in entry.snippets}
    return wrong + apart(named, snippets, "classification")


def apart(named: set[str], there: set[str], by: str) -> list[str]:
    """Files that are named and aren't there, and files that nobody names."""
    wrong = [f"{path}: a {by} names it, but it isn't there" for path in sorted(named - there)]
    return wrong + [f"{path}: no {by} names it" for path in sorted(there - named)]


def hazard_complaints(folder: Path = FOLDER) -> list[str]:
    """What the record of known hazards and its counterexamples do not agree about."""
    hazards = json.loads((folder / "hazards.json").read_text(encoding="utf-8"))["hazards"]
    told = {one["counterexample"] for one in hazards if "counterexample" in one}
    files = {f"docs/results/{path.relative_to(folder)}" for path in folder.glob("counterexamples/hazards/*")}
    return apart(told, files, "hazard")


def for_site(text: str, path: str) -> str:
    """A written page as the site has it: the results with all verdicts and findings, and what they say of upstream."""
    if path == "results/README.md":
        return results_page.page(text, evidence(), classification())
    return results_page.upstream(text, evidence(), classification()) if path == "upstream.md" else text


ROW = re.compile(r"^\| \[([^]]+)\]\([^)]+\)[^|]* \| ([^|]+) \| ([^|]*) \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE)
"""A finding in the table: its title, severity, releases, reach and links upstream."""
SHORT_REACHES = dict(zip(REACHES, ("server", "latent", "direct call"), strict=True))
SEVERITIES = ("data", "crash", "leak", "hits")


def table_complaints(text: str, entries: Sequence[Judged]) -> list[str]:
    """What the table of findings, written by hand, and the classification do not agree about."""
    rows = ROW.findall(text)
    told = [title for title, *_ in rows]
    known = {entry.title: entry for entry in entries}
    wrong = [f"README.md has no row for {title!r}" for title in known if title not in told]
    wrong += [f"README.md has {told.count(title)} rows for {title!r}" for title in known if told.count(title) > 1]
    wrong += [f"README.md has a row for {title!r}, which nobody classified" for title in told if title not in known]
    for title, *cells in rows:
        if title not in known:
            continue
        entry = known[title]
        severity, releases, reach, links = (cell.strip() for cell in cells)
        shown = [one for one in ALL_RELEASES if any(target.startswith(one) for target in entry.targets)]
        ending = {"declared choice": ", a choice"}.get(entry.kind, "")
        among = ["misuse"] if entry.kind == "outside the contract" else [f"{one}{ending}" for one in SEVERITIES]
        if severity not in among:
            wrong.append(f"README.md: {title!r} is {entry.kind}: its severity is one of {', '.join(among)}")
        if releases != ", ".join(one.removeprefix("sglang-").replace("vllm-", "vLLM ") for one in shown):
            wrong.append(f"README.md: {title!r} was seen in {', '.join(shown)}")
        if reach != SHORT_REACHES[entry.reach]:
            wrong.append(f"README.md: {title!r} is {entry.reach}")
        if tuple(re.findall(r"\(([^)]+)\)", links)) != entry.links:
            wrong.append(f"README.md: {title!r} has other links upstream")
    return wrong


def make(target: str, folder: Path = FOLDER) -> str:
    """Make a target's report, counterexamples and recorded steps again; says what came of it."""
    fresh = folder / ".fresh" / target
    kept, report = folder / "counterexamples" / target, folder / f"{target}.json"
    report.unlink(missing_ok=True)  # without its counterexamples it can't be read
    for one in (fresh, kept):
        shutil.rmtree(one, ignore_errors=True)
    command = [sys.executable, "-m", "kvlitmus.conformance.cli", "run", target, "--jobs", "1", "--color", "never"]
    command += ["--report", f"{fresh}/report.json", "--failures", str(kept.relative_to(ROOT))]
    command += ["--force-misuse"] if corpus.misused(target) else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        return f"{target}: exit {done.returncode}: {(done.stderr or done.stdout)[-300:]}"
    report.write_text(document.dump_report(brief.brief(saved.load(fresh / "report.json"), folder)), encoding="utf-8")
    shutil.rmtree(fresh)
    if corpus.record_peers([target]):
        return f"{target}: its steps could not be recorded"
    return next((line for line in done.stdout.splitlines() if " steps in " in line), "done")


def run(names: Sequence[str]) -> int:
    """Make the reports again that are missing or stale, or those that are named; goes on where it was interrupted."""
    found = reports()
    wanted = names or [name for name in TARGETS if name not in found or stale(found[name])]
    with ThreadPoolExecutor(2) as pool:
        for name, said in zip(wanted, pool.map(make, wanted), strict=True):
            print(f"{name}: {said}", flush=True)
    return 0


def replays(path: Path, rules: Sequence[str]) -> bool:
    """Whether a counterexample breaks its rules in this tree."""
    command = [sys.executable, "-m", "kvlitmus.conformance.cli", "replay", str(path), "--color", "never"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode == 1 and all(rule in done.stdout for rule in rules)


def fuzzed(paths: Sequence[str], folder: Path = FOLDER) -> int:
    """Keep what campaigns broke that the reports pass, the shortest counterexample of each rule; the exit code."""
    summaries = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    kept = folder / "counterexamples" / "fuzz"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    found, campaigns = reports(folder), []
    passed = {name: {row["id"] for row in one["rules"] if row["verdict"] == "passed"} for name, one in found.items()}
    for summary in summaries:
        target, settings, session = summary["target"]["name"], summary["settings"], summary["session"]
        for one in sorted(summary["findings"], key=lambda one: int(one["calls"])):
            path, rules = Path(one["file"]), ", ".join(one["rules"])
            if passed[target].isdisjoint(one["rules"]):
                continue
            if not replays(path, one["rules"]):
                print(f"{path.name}: does not break {rules} any more")
                continue
            shutil.copyfile(path, kept / f"{target}-{path.name}")
            passed[target] -= {*one["rules"]}
            print(f"{path.name}: {rules} on {target}, {one['calls']} calls")
        about = {"target": target, "configs": len(settings["configs"]), "seed": settings["seed"]}
        broken = sorted({rule for one in summary["findings"] for rule in one["rules"]})
        campaigns.append({**about, "steps": session["steps"], "plays": session["plays"], "found": broken})
    data = {"format": 2, "campaigns": campaigns}
    (folder / "fuzz.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="results.py [MODE] [TARGET …]"
    )
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--run", action="store_true")
    modes.add_argument("--fuzz", nargs="+", metavar="SUMMARY", help="summaries of campaigns")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="with --run: these alone")
    asked = parser.parse_args(arguments)
    if missing := [path for path in asked.fuzz or () if not Path(path).is_file()]:
        parser.error(f"there is no summary of a campaign: {', '.join(missing)}")
    unknown = set(asked.targets) - set(TARGETS)
    if unknown or (asked.targets and not asked.run):
        parser.error(f"targets go with --run, and are among {', '.join(TARGETS)}")
    if asked.run:
        return run(asked.targets)
    if asked.fuzz:
        return fuzzed(asked.fuzz)
    try:
        found, entries = evidence(), classification()
    except (ValueError, failures.FailureError) as error:
        print(error)
        return 1
    wrong = complaints(found, entries) + hazard_complaints() + table_complaints(README.read_text("utf-8"), entries)
    for complaint in wrong:
        print(complaint)
    for target, why in found.stale.items():
        print(f"{target} is stale: {'; '.join(why)}")
    if wrong:
        return 1
    print(
        f"{len(found.reports)} reports, {len(found.stale)} of them stale; {len(broken_rules(found.fresh))} violations, "
        f"{len(entries)} kinds of them, all classified"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
