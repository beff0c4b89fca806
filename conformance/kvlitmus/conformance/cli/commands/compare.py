"""``kvlitmus compare``: whether the second cache is the first, and where it is not, by whose right."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvlitmus.conformance.cli.commands import common, session
from kvlitmus.conformance.cli.commands.common import TargetFailed, UsageError
from kvlitmus.conformance.generate.schedule import describe, draw, may_misuse, table
from kvlitmus.conformance.history.compare.compared import FREEDOM, KINDS, LAW, Breach, Compared, compared
from kvlitmus.conformance.history.compare.likeness import Parting
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.ports import PORTS, Config, Profile
from kvlitmus.conformance.report.progress import Progress
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.support import ending, files
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.support.version import version
from kvlitmus.conformance.tape import recorder
from kvlitmus.conformance.tape.lines import TapeError, TapeReader
from kvlitmus.conformance.tape.played import Again, Record, records
from kvlitmus.spec.parts import all_rules

TAPES = (".jsonl", ".jsonl.gz", ".jsonl.xz")
"""What the name of a file of recorded plays ends with."""

COLORS = {LAW: "red", FREEDOM: "blue"}


@dataclass(slots=True)
class Side:
    """One of the two caches.  live: the target; else what was recorded lies in ``folder``, by the id of its item."""

    name: str
    folder: Path
    profile: Profile
    configs: tuple[Config, ...]
    ports: dict[str, frozenset[str]]
    live: session.Session | None = None
    items: list[Item] = field(default_factory=list)

    def results(
        self, items: Sequence[Item], options: Options, jobs: int, tick: Callable[[], None]
    ) -> Iterator[ItemResult | None]:
        """What came of each item, when its record lies in the folder; ``None`` of one that was recorded before."""
        if self.live is None:
            yield from (None for _ in items)
            return
        recorded = replace(options, record=str(self.folder))
        with contextlib.closing(self.live.run(items, recorded, jobs=jobs, on_event=lambda _: tick())) as results:
            yield from results

    def record(self, item: Item) -> Record | None:
        """The record of an item, if it was played."""
        recorded = item.kind == "tape" and self.live is None
        path = self.folder / (Path(item.name).name if recorded else recorder.name_of(item.id))
        if not path.is_file():
            return None
        try:
            with TapeReader(str(path)) as reader:
                found = next(records(reader, others=True), None)
        except TapeError as error:
            raise TargetFailed(str(error)) from None
        if self.live is not None:
            path.unlink()
        return found and found._replace(item=item)


def main(args: argparse.Namespace) -> int:
    """Compare; 0 they are the same, 1 they part, 3 one failed, 4 nothing could be compared."""
    style = style_of(sys.stdout, args.color)
    if args.json:
        common.check_writable("--json", args.json)
    with tempfile.TemporaryDirectory(prefix="kvlitmus-compare-") as folder:
        tape = taken_apart(args.tape, Path(folder, "tape")) if args.tape is not None else None
        sides = [side_of(word, Path(folder, name), args) for name, word in (("A", args.a), ("B", args.b))]
        pairs = list(pairs_of(sides, tape, args))
        if not pairs:
            raise UsageError("nothing is left to compare: expected items that both can play, got none")
        for line in headed(sides, len(pairs), style):
            print(line, flush=True)
        found = Found()
        found.ended = played(sides, pairs, args, style, found)
    for line in told(found, style):
        print(line)
    if args.json:
        write(args.json, sides, found)
    return found.exit_code


@dataclass(slots=True)
class Found:
    """What was compared so far."""

    outcomes: list[Compared] = field(default_factory=list)
    declined: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    ended: int = 0
    """The exit code of what was interrupted."""

    @property
    def parted(self) -> list[Compared]:
        """The items in which the two part."""
        return [one for one in self.outcomes if one.parting is not None]

    @property
    def counted(self) -> dict[str, int]:
        """How many items and steps were compared, in how many plays, and how many there are of the first cache."""
        done = self.outcomes
        return {
            "items": len(done),
            "of_items": len(done) + len(self.declined) + len(self.failed),
            "plays": sum(one.plays for one in done),
            "steps": sum(one.steps for one in done),
            "of_steps": sum(one.of for one in done),
        }

    @property
    def exit_code(self) -> int:
        """What was interrupted before 1 before 3 before 4."""
        if self.ended:
            return self.ended
        if self.parted:
            return 1
        return 3 if self.failed else 4 if not self.outcomes else 0


def side_of(word: str, folder: Path, args: argparse.Namespace) -> Side:
    """A target, asked what it is; or a file of recorded plays, taken apart."""
    if word.endswith(TAPES):
        return taken_apart(word, folder)
    folder.mkdir()
    found = session.ask(session.find(word, args.python), session.limits_of(args))
    return Side(found.name, folder, found.profile, found.configs, dict(found.info.capabilities), found)


def taken_apart(file: str, folder: Path) -> Side:
    """A file of recorded plays, an item at a time."""
    folder.mkdir()
    side = Side(harmless(Path(file).name, 100), folder, Profile(), (), {})
    try:
        with TapeReader(file) as reader:
            side.profile = reader.header.profile
            for record in records(reader, others=True):
                name = record.item.name if record.item.kind == "tape" else recorder.name_of(record.item.id)
                (folder / name).write_bytes(record.tape)
                side.items.append(record.item)
                label = record.item.config.label
                side.ports[label] = side.ports.get(label, frozenset()) | capabilities_of(record)
    except TapeError as error:
        raise UsageError(str(error)) from None
    side.configs = tuple(dict.fromkeys(one.config for one in side.items))
    return side


def capabilities_of(record: Record) -> frozenset[str]:
    """What a recorded cache can do, with what the suite composes of its ports, as a live one is asked."""
    checker = engine.fresh_checker(Again(record), record.item.config, Options(), CurrentRun())
    return checker.capabilities


def pairs_of(sides: Sequence[Side], tape: Side | None, args: argparse.Namespace) -> Iterator[tuple[Item, Item]]:
    """What is played on each, pair by pair."""
    a, b = sides
    shared = [one for one in a.configs if one in b.configs] or list(a.configs)
    configs = common.pick_configs(shared, args.page_size, args.config)
    source = tape or next((side for side in sides if side.live is None), None)
    if source is not None:
        items = list(dict.fromkeys(source.items))
    else:
        litmus, seed, steps = not args.no_litmus, args.seed, args.steps
        items = plan.items(configs, a.profile, seed=seed, steps=steps, litmus=litmus)
    recorded = [{one.id for one in side.items} for side in sides]
    for item in items:
        if (args.page_size or args.config) and item.config not in configs:
            continue
        if any(side.live is None and item.id not in ids for side, ids in zip(sides, recorded, strict=True)):
            continue
        drawn = as_drawn(item, sides)
        if source is not None and item.kind == "tape":
            drawn = replace(item, name=str(source.folder / item.name))
        yield tuple([drawn if side.live is not None else item for side in sides])  # type: ignore[misc]


def as_drawn(item: Item, sides: Sequence[Side]) -> Item:
    """An item that makes the same calls on both: what is drawn by a cache's ports is drawn by those that both have.

    What was recorded was drawn by its own ports and profile.
    """
    if item.kind != "random":
        return item
    by = [side for side in sides if side.live is None] or sides
    ports = frozenset.intersection(*[side.ports.get(item.config.label, frozenset()) for side in by])
    misuse = all(may_misuse(side.profile, ports, item.generation) for side in by)
    kinds = table(ports, item.generation)
    if not kinds:
        return item
    ops = tuple(draw(item.seed, item.ops, kinds, misuse=misuse, generation=item.generation))
    return Item(kind="schedule", config=item.config, name=f"seed={item.seed}", schedule=ops)


def left_out(sides: Sequence[Side]) -> dict[str, frozenset[str]]:
    """The ports that one of them has and the other lacks, in a configuration that both have: by side."""
    a, b = [side.ports for side in sides]
    both = a.keys() & b.keys()
    return {
        name: frozenset(port for label in both for port in mine[label] - theirs[label] if port in PORTS)
        for name, mine, theirs in (("A", a, b), ("B", b, a))
    }


def played(
    sides: Sequence[Side], pairs: Sequence[tuple[Item, Item]], args: argparse.Namespace, style: Style, found: Found
) -> int:
    """Play and compare item by item; returns the exit code of what was interrupted, else 0."""
    alone = frozenset().union(*left_out(sides).values())
    kept = {name for port, names in PORTS.items() if port not in alone for name in names}
    without = frozenset(name for port in alone for name in PORTS[port]) - kept
    judged = Options(depth=args.depth, reruns=0, shrink_trials=0, without=without)
    options = replace(judged, muted=frozenset(all_rules()))  # what both break ends no play
    progress = Progress(sys.stdout, style, len(pairs))
    items = [[pair[at] for pair in pairs] for at in (0, 1)]
    streams = [side.results(items[at], options, args.jobs, progress.tick) for at, side in enumerate(sides)]
    try:
        for pair, *results in zip(pairs, *streams, strict=True):
            steps = one_item(sides, pair, results, judged, found)
            progress.add_sum(1, steps)
    except KeyboardInterrupt:
        print("kvlitmus: interrupted; what was compared so far follows", file=sys.stderr)
        return ending.exit_code()
    finally:
        progress.clear()
        for stream in streams:
            stream.close()  # type: ignore[attr-defined]
    return 0


def one_item(
    sides: Sequence[Side],
    pair: tuple[Item, Item],
    results: Sequence[ItemResult | None],
    options: Options,
    found: Found,
) -> int:
    """Compare what was recorded of one item; returns how many steps there were."""
    came = [came_of(side, item, result, options) for side, item, result in zip(sides, pair, results, strict=True)]
    id = pair[0].id
    for name, (result, record) in zip("AB", came, strict=True):
        if result is not None and result.error:
            found.failed[id] = f"{name}: {result.error}"
        elif result is not None and result.unsupported and (record is None or pair[0].kind != "tape"):
            found.declined[id] = f"{name}: {harmless(result.unsupported)}"
        elif record is None and not (result is not None and died(result)):
            found.declined[id] = f"{name}: it was not recorded"
    if id in found.failed or id in found.declined:
        return 0
    (result_a, a), (result_b, b) = came
    if dead := [(name, one) for name, (one, _) in zip("AB", came, strict=True) if one is not None and died(one)]:
        found.outcomes.append(crashed(id, dead))
        return 0
    assert a is not None and b is not None
    if not any(step.call for record in (a, b) for _, steps in record.plays for step in steps):
        found.declined[id] = "neither made a call"
        return 0
    ended = [
        [] if one is None else [rule for finding in one.findings for rule in finding.rules]
        for one in (result_a, result_b)
    ]
    cut = next(
        (f"{name}: {one.unsupported}" for name, (one, _) in zip("AB", came, strict=True) if one and one.unsupported), ""
    )
    outcome = compared(a, b, options, (ended[0], ended[1]), cut)
    found.outcomes.append(outcome)
    return outcome.steps


def died(result: ItemResult) -> bool:
    """Whether a play ended its process, or hung: what is on record then is of a play without that call."""
    return any("PORT-02" in finding.rules for finding in result.findings)


def came_of(
    side: Side, item: Item, result: ItemResult | None, options: Options
) -> tuple[ItemResult | None, Record | None]:
    """What came of an item on one side, and its record.

    Where its process died, it is played once more up to the first rule that it breaks: what comes after may be no
    fault of its own.
    """
    record = side.record(item)
    if side.live is not None and result is not None and died(result):
        result = next(iter(side.results([item], options, 1, lambda: None)))
        record = side.record(item)
    return result, record


def crashed(id: str, dead: Sequence[tuple[str, ItemResult]]) -> Compared:
    """What is said where a process died, of one or of both."""
    outcome = Compared(item=id)
    firsts = {side: one.findings[0] for side, one in dead}
    if len(dead) > 1 and len({(one.steps, one.call, *one.rules) for one in firsts.values()}) == 1:
        outcome.both = firsts["A"].rules
        return outcome
    side, first = min(firsts.items(), key=lambda one: one[1].steps)
    outcome.kind = LAW
    outcome.breach = Breach(
        side=side, step=first.steps, rules=first.rules, call=first.call, allowed=first.allowed, seen=first.seen
    )
    told = {side: harmless(first.detail), "AB".replace(side, ""): "it goes on"}
    outcome.parting = Parting(
        step=first.steps, step_b=first.steps, call=first.call, what="end", a=told["A"], b=told["B"]
    )
    return outcome


# -- what is told ----------------------------------------------------------------------------------


def headed(sides: Sequence[Side], many: int, style: Style) -> Iterator[str]:
    """Which two, and in what they say that they differ."""
    yield f"{style.paint(f'kvlitmus {version()}', 'bold')}: is B the same as A? {many} items"
    for name, side in zip("AB", sides, strict=True):
        what = f" ({side.live.version})" if side.live is not None and side.live.version else ""
        yield f"  {style.paint(name, 'bold')} {side.name}{what}"
    one, two = (describe(side.profile) for side in sides)
    for field_, value in one.items():
        if value != two[field_]:
            yield from style.wrap(f"{field_}: {value!r} of A, {two[field_]!r} of B", "      ", "  profile ")
    for name, ports in left_out(sides).items():
        if ports:
            yield from style.wrap(f"of {name} alone, not compared: {', '.join(sorted(ports))}", "      ", "  ports ")


def groups_of(parted: Sequence[Compared]) -> list[list[Compared]]:
    """The items that part by the same, the shortest first; differences in law before all others."""
    groups: dict[tuple[str, str], list[Compared]] = {}
    for item in parted:
        for one in (item, *item.later):
            groups.setdefault((one.kind, one.why), []).append(one)
    ordered = sorted(groups.values(), key=lambda group: (KINDS.index(group[0].kind), -len(group)))
    return [sorted(group, key=lambda one: one.parting.step if one.parting else 0) for group in ordered]


def told(found: Found, style: Style) -> Iterator[str]:
    """Where they part, and by whose right."""
    for group in groups_of(found.parted):
        yield ""
        yield from one_group(group, style)
    yield ""
    for what, some in (("not compared", found.declined), ("failed", found.failed)):
        for why in dict.fromkeys(some.values()):
            many = sum(one == why for one in some.values())
            yield from style.wrap(f"{many} item{'s' * (many != 1)}: {why}", "      ", f"  {what} ")
    both = [one for one in found.outcomes if one.parting is None and one.both]
    if both:
        rules = ", ".join(dict.fromkeys(rule for one in both for rule in one.both))
        yield from style.wrap(f"{len(both)} items end early, since both break the same: {rules}", "      ", "  ")
    for why in dict.fromkeys(one.apart for one in found.parted if one.apart):
        apart = [one for one in found.parted if one.apart == why]
        rest = sum(one.of - one.steps for one in apart)
        yield from style.wrap(f"{rest:,} steps of {len(apart)} items: {why}", "      ", "  not compared ")
    yield ("compared: {items:,} of {of_items:,} items in {plays:,} plays, {steps:,} of {of_steps:,} steps").format_map(
        found.counted
    )
    alike, parted = len(found.outcomes) - len(found.parted), len(found.parted)
    kinds = [f"{sum(one.kind == kind for one in found.parted)} by {kind}" for kind in KINDS]
    by = ", ".join(text for text in kinds if not text.startswith("0 "))
    text = f"alike to their end in {alike} of {len(found.outcomes)} items" + (
        f"; they part in {parted}: {by}" if by else ""
    )
    color = "green" if found.exit_code == 0 else "red" if any(one.kind == LAW for one in found.parted) else "yellow"
    yield style.paint(f"exit {found.exit_code}: {text}", color)


def one_group(group: Sequence[Compared], style: Style) -> Iterator[str]:
    """One cause, by the shortest play that shows it."""
    first = group[0]
    found = first.parting
    assert found is not None
    more = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
    yield from style.wrap(
        f"{first.kind}: {first.why}", "  ", style.paint(style.symbol("bad"), COLORS.get(first.kind, "yellow")) + " "
    )
    yield from style.wrap(f"{first.item}{more}", "             ", "  in         ")
    yield from style.wrap(found.call, "             ", f"  step {found.step:<5}  ")
    for name, answer in zip("AB", found.answers, strict=True):
        if answer and found.what not in ("answer", "call"):
            yield from style.wrap(answer, "             ", f"  {name} answered ")
    where = f", {found.where}" if found.where and not found.order and found.what not in ("call", "end") else ""
    if found.a or found.b:
        yield from style.wrap(f"{found.what}{where}", "             ", "  they part  ")
        yield from style.wrap(found.a, "             ", "  A          ")
        yield from style.wrap(found.b, "             ", "  B          ")
    if found.since:
        yield f"             (they had parted before, and were together again after step {found.since})"
    if first.both:
        yield from style.wrap(f"both have broken {', '.join(first.both)} before", "             ", "             ")
    if first.breach is not None:
        breach, rules = first.breach, all_rules()
        later = "" if breach.step <= found.step else f", {breach.step - found.step} steps later: {breach.call}"
        for id in breach.rules:
            yield from style.wrap(f"{id} {rules[id].text}{later}", "    ", "    ")
        yield from style.wrap(breach.allowed, "               ", "    allowed    ")
        for fact, value in breach.seen.items():
            yield from style.wrap(f"{fact} = {value}", "               ", "    seen       ")


def write(file: str, sides: Sequence[Side], found: Found) -> None:
    """The same as JSON."""
    document: dict[str, object] = {
        "kind": "kvlitmus comparison",
        "kvlitmus": version(),
        "a": {"target": sides[0].name, "profile": describe(sides[0].profile)},
        "b": {"target": sides[1].name, "profile": describe(sides[1].profile)},
        "exit_code": found.exit_code,
        "items": len(found.outcomes),
        "compared": found.counted,
        "alike": len(found.outcomes) - len(found.parted),
        "not_compared": found.declined,
        "failed": found.failed,
        "partings": [one.as_json() for group in groups_of(found.parted) for one in group],
    }
    try:
        files.write(Path(file), json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"--json {harmless(file)}: can't be written: {files.reason(error)}") from None
