"""The page of the frame: the table of actions, no cell empty, and who notices changes behind calls without a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kvlitmus.mutants.disturb import BY_FRAME_ALONE
from kvlitmus.mutants.disturb_kinds import IMPOSSIBLE, LATER, LEGAL, MISSED, NOTICED, OPEN, OUTCOMES, Cell
from kvlitmus.spec.actions import ACTIONS, CAUSES, EFFECTS, ELSEWHERE, FACETS, Because, Group, What
from kvlitmus.spec.on import On
from tests.conformance.frame import KINDS, Kind, cells_of, kept

GOVERNED: dict[What, tuple[str, ...]] = {
    What.PLACE: ("TREE-08", "REQ-08", "FRAME-01"),
    What.RESTORE: ("LOAD-01", "LOAD-02", "FRAME-01"),
    What.EVICT: ("EVICT-01", "EVICT-05", "EVICT-06", "LOCK-01", "FRAME-01"),
    What.DEMOTE: ("EVICT-05", "EVICT-06", "TIER-13", "LOAD-08", "FRAME-01"),
    What.MOVE: ("FRAME-01",),
    What.TAKE: ("POOL-12", "POOL-14", "FRAME-02"),
    What.RELEASE: ("POOL-12", "EVICT-04", "FRAME-02"),
    What.USE: ("EVICT-05",),
    What.COUNT: ("TREE-13", "TIER-25"),
    What.RAISE: ("TREE-14", "TIER-26"),
    What.LOCK: ("LOCK-02", "LOCK-04"),
    What.UNLOCK: ("LOCK-02", "LOCK-04"),
    What.SPLIT: (),
    What.BACK: ("BACKUP-01", "BACKUP-02", "FETCH-12", "FETCH-13", "TIER-42", "FRAME-03"),
    What.DROP: ("TIER-14", "TIER-30", "TIER-31", "TIER-41", "FRAME-03"),
    What.MOVE_COPY: ("TIER-11", "TIER-41", "FRAME-03"),
    What.HOST_TAKE: ("TIER-02", "FETCH-04", "FRAME-04"),
    What.HOST_RELEASE: ("TIER-01", "TIER-16", "FRAME-04"),
    What.PIN: ("LIFE-08", "FRAME-05"),
    What.UNPIN: ("TIER-11", "TIER-12", "FRAME-05"),
    What.BEGIN_JOB: ("BACKUP-02", "LOAD-04", "FETCH-08", "FRAME-06"),
    What.GO_ON: ("LOAD-06", "FETCH-10", "FRAME-06"),
    What.END_JOB: ("BACKUP-03", "LIFE-06", "FRAME-06"),
    What.ASK: ("BACKUP-04", "FRAME-07"),
    What.READ: ("FETCH-09", "FRAME-07"),
    What.PUT: ("BACKUP-06", "BACKUP-07", "FRAME-07"),
    What.TELL: ("EVENT-01", "EVENT-02", "EVENT-03", "EVENT-04"),
}
"""By which rules each effect is governed where it is allowed, and guarded where it isn't."""

PAGE_SAYS = """Every call may change what is listed here, for these causes, and nothing else. Granted, refused and
failed calls are rows of their own; a step that is several of them may have what any of its rows allow. Rendered from
[actions.py](../spec/kvlitmus/spec/actions.py). What isn't explained by a cause breaks the
[frame](rules/frame.md)."""

KINDS_SAY = """Calls on these have no row above: rules of their own say what must stay as it is. Each change here is
made behind each kind of call, and who notices it is kept by `tests/conformance/frame.py`. What does not show
at once is made to a cache that plays on: it is noticed later. *Impossible* is what could not be made behind
that call, in any schedule: nothing of that kind was there. *Open* is what isn't legal, and no rule notices."""


def cell(causes: Sequence[Because]) -> str:
    """One cell of the table."""
    if not causes:
        return "*unchanged*"
    return ", ".join(one.cause.value + (f" ({one.field} = {one.value})" if one.field else "") for one in causes)


def group_table(group: Group) -> list[str]:
    """What each call may do to one group of the state."""
    columns = [what for what in What if what.group is group]
    lines = [f"| call | {' | '.join(what.value for what in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for on, row in ACTIONS.items():
        lines.append(f"| `{on}` | {' | '.join(cell(row.get(what, ())) for what in columns)} |")
    return lines


def noticing(cells: Mapping[str, Sequence[str]]) -> str:
    """By which rules a change is noticed, each with the number of calls."""
    rules = Counter(rule for named in cells.values() for rule in named)
    return ", ".join(f"{rule} ({many})" for rule, many in rules.most_common()) or "–"


def calls_text(kind: Kind, calls: Sequence[str]) -> str:
    """Calls, without the name of their kind."""
    return ", ".join(f"`{call.replace(f'{kind.name}_', '', 1)}`" for call in calls) or "–"


def kind_part(kind: Kind) -> list[str]:
    """The cells of one kind of caches, a line for each change."""
    ways = {how: {one: cells_of(outcomes, one) for one in outcomes} for how, outcomes in kept(kind).items()}
    counts = Counter(dict.fromkeys((one for one in OUTCOMES if one != MISSED), 0))
    for outcomes in ways.values():
        counts.update({one: len(cells) for one, cells in outcomes.items()})
    calls = dict.fromkeys(call for outcomes in ways.values() for cells in outcomes.values() for call in cells)
    lines = ["", f"### {kind.title}", "", ", ".join(f"{many:,} {one}" for one, many in counts.items()) + "."]
    lines += [f"Behind {calls_text(kind, list(calls))}.", ""]
    lines += ["| change | noticed at once by (calls) | later by (calls) | legal, or open | impossible behind |"]
    lines += ["|---|---|---|---|---|"]
    for how, outcomes in ways.items():
        why = {call: kind.excuse(Cell(On(call), how)) for one in (LEGAL, OPEN) for call in outcomes.get(one, ())}
        said = "; ".join(
            f"{calls_text(kind, [one for one in why if why[one] == text])}: {text}"
            for text in dict.fromkeys(why.values())
        )
        away = outcomes.get(IMPOSSIBLE, {})
        gone = "all" if len(away) == len(calls) else calls_text(kind, list(away))
        lines.append(
            f"| {how} | {noticing(outcomes.get(NOTICED, {}))} | {noticing(outcomes.get(LATER, {}))} "
            f"| {said or '–'} | {gone} |"
        )
    lines += ["", "| part of the state | disturbed by |", "|---|---|"]
    lines += [f"| {part} | *{start}* … |" for part, start in kind.changes.GROUPS.items()]
    lines += [f"| {part} | nothing: {why} |" for part, why in kind.changes.NOT_DISTURBED.items()]
    return lines


def frame_page() -> str:
    """The page."""
    lines = ["# What each call may change", "", PAGE_SAYS]
    for group in Group:
        lines += [
            "",
            f"## {group.value[0].upper()}{group.value[1:]}",
            "",
            "| effect | meaning | rules |",
            "|---|---|---|",
        ]
        for what in What:
            if what.group is group:
                rules = ", ".join(GOVERNED[what]) or "none: it is the cache's own affair"
                lines.append(f"| {what.value} | {EFFECTS[what][1]} | {rules} |")
        lines += ["", *group_table(group)]
    lines += ["", "## Where the frame is the law", ""]
    lines += ["Where an effect may happen, and no other law says for what: one that nobody asked for is noticed by the"]
    lines += ["frame alone.", "", "| effects | why |", "|---|---|"]
    lines += [f"| {', '.join(what.value for what in whats)} | {why} |" for whats, why in BY_FRAME_ALONE]
    lines += ["", "## Components, sparse host pools and ranks", "", KINDS_SAY]
    lines += [line for kind in KINDS for line in kind_part(kind)]
    lines += ["", "## Causes", "", "| cause | meaning |", "|---|---|"]
    lines += [f"| {cause.value} | {meaning} |" for cause, meaning in CAUSES.items()]
    lines += ["", "## Without a row", "", "| call | why |", "|---|---|"]
    lines += [f"| `{on}` | always comes with {', '.join(f'`{one}`' for one in rows)} |" for on, rows in FACETS.items()]
    lines += [f"| `{on}` | {why} |" for on, why in ELSEWHERE.items()]
    return "\n".join(lines) + "\n"
