"""Pages that are made from the rooms themselves: a hook of MkDocs, and plain functions for the tests.

Nothing of this is committed.  The rules are rendered part by part from the register, so that nothing can say
anything else than the judge does; the ports are rendered from their docstrings, the matrix from what establishes each
rule.  mkdocstrings reads the reference and shows its source.

Elsewhere the source itself is the page.  So written pages link to the source, and name rules by their ids: both
lead somewhere where the code is hosted, whatever its address is.  :func:`for_site` makes links to pages of them.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "conformance")))
sys.path[:0] = [path for path in ROOMS if path not in sys.path]

from kvlitmus.conformance import ports  # noqa: E402
from kvlitmus.conformance.report import ledger  # noqa: E402
from kvlitmus.mutants import disturb_kinds as kinds  # noqa: E402
from kvlitmus.mutants.prefix.disturb import BY_FRAME_ALONE  # noqa: E402
from kvlitmus.spec import interface  # noqa: E402
from kvlitmus.spec.law import actions, facts  # noqa: E402
from kvlitmus.spec.law.actions import ACTIONS, ELSEWHERE, FACETS, Because, Cause, Group, What  # noqa: E402
from kvlitmus.spec.law.facts import FACTS, INPUTS  # noqa: E402
from kvlitmus.spec.law.on import On  # noqa: E402
from kvlitmus.spec.law.rule import RETIRED, Kind, Rule, in_force  # noqa: E402
from kvlitmus.spec.ledger import read  # noqa: E402
from kvlitmus.spec.parts import all_rules  # noqa: E402
from kvlitmus.spec.prefix.rules import job  # noqa: E402
from kvlitmus.spec.prefix.stand_ins import meant_by, standing_for  # noqa: E402
from kvlitmus.spec.words import config, policies, prefetch_life, profile  # noqa: E402
from kvlitmus.spec.words import layouts as component_layouts  # noqa: E402
from kvlitmus.spec.words import shapes as component_shapes  # noqa: E402
from kvlitmus.spec.words.transitions import Table  # noqa: E402
from tests.conformance.frame import KINDS, cells_of, kept  # noqa: E402
from tests.conformance.frame import Kind as Cache  # noqa: E402
from tools import hazards, implement_page, matrix, results, site_files  # noqa: E402
from tools.autodoc import code, markdown, modules_page  # noqa: E402
from tools.matrix import ordered_rules  # noqa: E402

NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
REFERENCE = re.findall(r" reference/(?!index)([\w.]+)\.md$", NAVIGATION, re.MULTILINE)
"""The modules of the reference, in the order in which they are best read: that of the navigation."""

PORTS: dict[str, tuple[str, tuple[ModuleType, ...]]] = {
    "ports": ("Ports and profile", (ports, config, profile, interface.cache, interface.ports)),
    "tier_ports": ("Ports of a hierarchy", (interface.tiers,)),
    "policies": ("Policies", (policies,)),
    "rank_ports": ("Ports of several ranks", (interface.ranks,)),
    "store_ports": ("Ports of a page store", (interface.stores,)),
    "sparse_ports": ("Ports of a sparse host pool", (interface.sparse,)),
    "component_ports": (
        "Ports of a cache of components",
        (interface.components, component_shapes, component_layouts),
    ),
}
"""The pages about what adapters implement: the title and the modules of each."""

PAPERS = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""The pages of the checkout's root, each with its page of the site."""

SOUGHT: Mapping[str, tuple[str, ...]] = {
    "guides/radix-tree.md": ("prefix caching", "radix tree", "RadixAttention", "RadixCache", "tree cache"),
    "guides/block-table.md": ("block table", "block pool", "PagedAttention", "LoRA", "salt"),
    "guides/host-tier.md": ("HiCache", "LMCache", "host memory", "host tier", "offloading", "hierarchical cache"),
    "guides/components.md": ("SWA", "sliding window", "Mamba", "hybrid model", "recurrent state"),
    "guides/store.md": ("storage backend", "Redis", "Valkey", "Mooncake"),
    "guides/ranks.md": ("tensor parallelism", "pipeline parallelism", "TP", "PP"),
    "guides/trace.md": ("recorded trace", "log"),
    "adapters.md": ("CI", "GitHub action", "pytest", "JUnit", "exit code", "baseline"),
    "tutorial.md": ("first verdict", "counterexample"),
    "glossary.md": ("glossary", "tombstone", "receipt", "sidecar", "not exercised", "not applicable"),
    "results/README.md": ("find", "found", "findings", "bugs", "vLLM", "SGLang"),
    "gpu.md": ("H100", "CUDA", "GPU"),
}
"""What readers search for, by the page that they should see first: tags, which the theme's search counts for most."""

DEPTHS = (
    "0: return values, and what the suite itself wrote",
    "1: counters",
    "2: events",
    "3: a full snapshot",
)


def pages() -> dict[str, str]:
    """The pages that are made when the site is built, but for the matrix: path → Markdown."""
    rules = ordered_rules()
    packs = {
        pack: [one for one in rules.values() if one.pack == pack]
        for pack in dict.fromkeys(one.pack for one in rules.values())
    }
    made = {"rules/index.md": rules_index(packs), "rules/facts.md": facts_page(rules)}
    made |= {f"rules/{pack}.md": pack_page(mine) for pack, mine in packs.items()}
    for name, (title, modules) in PORTS.items():
        sources = [Path(inspect.getfile(module)) for module in modules]
        made[f"{name}.md"] = modules_page(title, {f"../{path.relative_to(ROOT)}": path for path in sources})
    made |= {
        "states.md": states_page(),
        "frame.md": frame_page(),
        "ledger.md": ledger.page(),
        "results/hazards.md": hazards.page(),
    }
    made |= {f"reference/{name}.md": reference_page(name, rules) for name in REFERENCE}
    made["reference/index.md"] = reference_index()
    return made | {page: from_root((ROOT / path).read_text(encoding="utf-8")) for path, page in PAPERS.items()}


def from_root(text: str) -> str:
    """A page of the checkout's root as one of ``docs/``: its links go from there."""
    return re.sub(r"\]\((?!\w+:|#)(docs/)?([^)]+)\)", lambda found: f"]({'' if found[1] else '../'}{found[2]})", text)


@functools.cache
def page_of() -> dict[str, str]:
    """Sources, by their paths in the checkout, that a page of the site stands for."""
    import kvlitmus.reference
    import kvlitmus.spec

    goals: list[tuple[ModuleType, str]] = [
        *((job, "states.md"), (prefetch_life, "states.md"), (actions, "frame.md"), (matrix, "matrix.md")),
        (read, "ledger.md"),
        *((module, f"{name}.md") for name, (_, modules) in PORTS.items() for module in modules),
        *((_module(name), f"reference/{name}.md") for name in REFERENCE),
        *((sys.modules[rule.predicate.__module__], f"rules/{rule.pack}.md") for rule in ordered_rules().values()),
        *((kvlitmus.spec, "rules/index.md"), (facts, "rules/facts.md"), (kvlitmus.reference, "reference/index.md")),
    ]
    found = {Path(inspect.getfile(module)).relative_to(ROOT).as_posix(): page for module, page in reversed(goals)}
    return found | PAPERS | {"docs/results/hazards.json": "results/hazards.md"}


def rules_index(packs: Mapping[str, list[Rule]]) -> str:
    """The list of all rules."""
    lines = [
        "# Rules",
        "",
        "A rule is a function: its docstring is the normative sentence, its parameters name the [facts](facts.md) that",
        "it speaks of, its result says whether the sentence is true. The judge evaluates these very functions.",
        "",
        "MUST: a broken rule is a defect. SHOULD: it is a weakness that somebody may have chosen. The depth says how",
        "much of a cache has to be seen before a rule can be judged:",
        "",
        *(f"- depth {text}" for text in DEPTHS),
    ]
    for pack, mine in packs.items():
        lines += ["", f"## [{pack}]({pack}.md)", "", "| rule | sentence | strength | depth |", "|---|---|---|---|"]
        lines += [
            f"| [{one.id}]({pack}.md#{one.id.lower()}) | {one.title} | {one.strength.value} | {one.depth} |"
            for one in mine
        ]
    if RETIRED:
        lines += ["", "## Retired", "", *(f"- {id}: {one.why}{led_on(id)}" for id, one in RETIRED.items())]
    return "\n".join(lines) + "\n"


def led_on(id: str) -> str:
    """Where a reader finds what a retired rule said."""
    rule = ordered_rules().get(in_force(id))
    return "" if rule is None else f"; see [{rule.id}]({rule.pack}.md#{rule.id.lower()})"


def pack_page(rules: list[Rule]) -> str:
    """One part: its introduction, then rule by rule."""
    module = inspect.getmodule(rules[0].predicate)
    assert module is not None
    title, body = prose(module)
    lines = [f"# {title}", "", body]
    for rule in rules:
        lines += ["", *rule_section(rule)]
    return "\n".join(lines) + "\n"


def rule_section(rule: Rule) -> list[str]:
    """One rule: sentence, strength, what it needs, its logic, and where the reference keeps it."""
    when = "after every call" if rule.kind is Kind.STATE else ", ".join(f"`{kind}`" for kind in rule.on) or "every call"
    about = [f"**{rule.strength.value}**", f"{rule.kind.value} rule", f"judged after {when}", f"depth {rule.depth}"]
    if rule.needs:
        about.append(f"needs {', '.join(sorted(rule.needs))}")
    lines = [f'<a id="{rule.id.lower()}"></a>', "", f"## {rule.id}: {rule.title}", ""]
    lines += [f"> {rule.text}", "", " · ".join(about), ""]
    if rule.facts:
        lines.append(f"- Facts: {', '.join(f'[{name}](facts.md#{name})' for name in rule.facts)}")
    if rule.allowed:
        lines.append(f"- What would have been right: `{rule.allowed}`")
    lines += [f"- With less to see, {_links((one.rule,))} says this: {one.how}" for one in standing_for(rule.id)]
    lines += [f"- Says with less to see what is said by {_links(one.of)}: {one.how}" for one in meant_by(rule.id)]
    lines.append(f"- From: {linked(rule.source)}")
    if rule.reference:
        path, _, name = rule.reference.rpartition(".")
        goal = f"../../reference/kvlitmus/reference/{path.replace('.', '/')}.py#{name}"
        lines.append(f"- How the reference keeps it: [{rule.reference}]({goal})")
    if rule.facts:
        logic = code(inspect.getsource(rule.predicate).rstrip())
        lines += ["", '<details markdown="1"><summary>as logic</summary>', "", *logic, "", "</details>"]
    return lines


def facts_page(rules: Mapping[str, Rule]) -> str:
    """Every fact, with the least depth at which it is known, what it is worked out from, and who speaks of it."""
    lines = ["# Facts", "", "What rules speak of, and the least depth of observation at which a judge can know it.", ""]
    lines += ["A fact is worked out from other facts, and in the end from what every step has:", ""]
    lines += [f"- `{name}`: {meaning}" for name, meaning in INPUTS.items()]
    lines += [
        "",
        "One that may be unknown makes unknown what is worked out from it, and a rule that speaks of it is not",
    ]
    lines += ["judged at that step.", ""]
    for name, fact in sorted(FACTS.items()):
        users = [f"[{one.id}]({one.pack}.md#{one.id.lower()})" for one in rules.values() if name in one.facts]
        lines += [f"## {name}", "", f"{fact.meaning[0].upper()}{fact.meaning[1:]}.", ""]
        needs = [f"[{one}](#{one})" if one in FACTS else f"`{one}`" for one in fact.needs]
        known = [f"Depth {fact.depth}", f"from {', '.join(needs)}" if needs else "from nothing"]
        known += ["may be unknown"] if fact.open else []
        known += [f"needs {', '.join(sorted(fact.ports))}"] if fact.ports else []
        known += [f"for {', '.join(users)}" if users else "for other facts"]
        lines += [f"{'; '.join(known)}.", ""]
    return "\n".join(lines) + "\n"


def states_page() -> str:
    """What jobs and prefetches go through: the states, a diagram for each kind, and what each step means."""
    lines = ["# States of jobs and prefetches", ""]
    lines += ["What is in the background goes through these states and no others. Rendered from the tables of"]
    lines += ["[job.py](../spec/kvlitmus/spec/prefix/rules/job.py) and"]
    lines += ["[prefetch_life.py](../spec/kvlitmus/spec/words/prefetch_life.py),"]
    lines += ["which tests hold against what the reference, the specimen and the optimized cache do."]
    for module, states in ((job, job.JOBS), (prefetch_life, prefetch_life.PREFETCHES)):
        title, body = prose(module)
        lines += ["", f"## {title}", "", body, "", "| state | meaning |", "|---|---|"]
        lines += [f"| {name} | {meaning} |" for name, meaning in states.states.items()]
        for kind in dict.fromkeys(kind for one in states.transitions for kind in one.kinds):
            lines += ["", f"### {kind}", "", "```text", *diagram(states, kind), "```"]
        lines += ["", "### What the steps mean", "", "| of | from | by | to | meaning |", "|---|---|---|---|---|"]
        for one in states.transitions:
            parts = (", ".join(one.kinds), ", ".join(one.before), ", ".join(one.causes), one.after)
            meaning = f"{one.why} Only in {one.elsewhere}." if one.elsewhere else one.why
            lines.append(f"| {' | '.join(parts)} | {meaning} |")
    return "\n".join(lines) + "\n"


def diagram(states: Table, kind: str) -> Iterable[str]:
    """The steps of one kind, state by state: the calls that lead to each state that may be next."""
    for state in states.states:
        goals: dict[str, list[str]] = {}
        for step in states.steps:
            if step.kind == kind and step.before == state:
                goals.setdefault(step.after, []).append(step.cause)
        if goals:
            yield state
            width = max(map(len, goals))
            yield from (f"  ─▶ {goal:<{width}}  {', '.join(causes)}" for goal, causes in goals.items())


def reference_index() -> str:
    """What the reference is, and its parts."""
    import kvlitmus.reference

    title, body = prose(kvlitmus.reference)
    lines = [f"# Reference: {title[0].lower()}{title[1:]}", "", body, ""]
    lines += [f"- [{name}]({name}.md): {prose(_module(name))[0]}" for name in REFERENCE]
    return "\n".join(lines) + "\n"


def reference_page(name: str, rules: Mapping[str, Rule]) -> str:
    """One module of the reference, with the rules that it keeps."""
    kept = [f"[{one.id}](../rules/{one.pack}.md#{one.id.lower()})" for one in rules.values() if _part(one) == name]
    beside = f"Rules that are kept here: {', '.join(kept)}." if kept else ""
    return "\n\n".join([f"# {name}", beside, f"::: kvlitmus.reference.{name}"]) + "\n"


def _links(ids: Iterable[str]) -> str:
    """Rules by their ids, with links to where they are on the pages of rules."""
    return ", ".join(f"[{id}]({all_rules()[id].pack}.md#{id.lower()})" for id in ids)


def _part(rule: Rule) -> str:
    return rule.reference.rpartition(".")[0]


def _module(name: str) -> ModuleType:
    import importlib

    return importlib.import_module(f"kvlitmus.reference.{name}")


def prose(module: ModuleType) -> tuple[str, str]:
    """A module's docstring as Markdown: its first line as a title, and the rest."""
    text = markdown(inspect.getdoc(module) or module.__name__)
    title, _, body = text.partition("\n")
    return title.rstrip("."), body.strip()


def linked(source: str) -> str:
    """Where a rule comes from, with links to the table of provenance and to upstream."""
    source = re.sub(r"\bR-[A-Z0-9]+-\d+", lambda found: f"[{found[0]}](../map.md)", source)
    owners = {"sglang": "sgl-project/sglang", "vllm": "vllm-project/vllm", "LMCache": "LMCache/LMCache"}
    return re.sub(
        r"(?<![-/\w])(sglang|vllm|LMCache)#(\d+)",
        lambda found: f"[{found[0]}](https://github.com/{owners[found[1]]}/issues/{found[2]})",
        source,
    )


GOVERNED: dict[What, tuple[str, ...]] = {
    What.PLACE: ("TREE-08", "FRAME-01"),
    What.RESTORE: ("LOAD-01", "LOAD-02", "FRAME-01"),
    What.EVICT: ("EVICT-01", "EVICT-05", "EVICT-06", "LOCK-01", "FRAME-01"),
    What.DEMOTE: ("EVICT-05", "EVICT-06", "TIER-13", "LOAD-08", "FRAME-01"),
    What.MOVE: ("FRAME-01",),
    What.TAKE: ("POOL-12", "POOL-14", "FRAME-02"),
    What.RELEASE: ("POOL-12", "EVICT-04", "FRAME-02"),
    What.USE: ("EVICT-05",),
    What.COUNT: ("TREE-13",),
    What.RAISE: ("TREE-14",),
    What.LOCK: ("LOCK-02", "LOCK-04"),
    What.UNLOCK: ("LOCK-02", "LOCK-04"),
    What.SPLIT: (),
    What.BACK: ("BACKUP-01", "BACKUP-02", "FETCH-12", "FETCH-13", "TIER-42", "FRAME-03"),
    What.DROP: ("EVICT-03", "EVICT-05", "EVICT-06", "TIER-41", "FRAME-03"),
    What.MOVE_COPY: ("TIER-11", "TIER-41", "FRAME-03"),
    What.HOST_TAKE: ("POOL-12", "FETCH-04", "FRAME-04"),
    What.HOST_RELEASE: ("POOL-12", "EVICT-04", "FRAME-04"),
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
[actions.py](../spec/kvlitmus/spec/law/actions.py). What isn't explained by a cause breaks the
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


def calls_text(kind: Cache, calls: Sequence[str]) -> str:
    """Calls, without the name of their kind."""
    return ", ".join(f"`{call.replace(f'{kind.name}_', '', 1)}`" for call in calls) or "–"


def kind_part(kind: Cache) -> list[str]:
    """The cells of one kind of caches, a line for each change."""
    ways = {how: {one: cells_of(outcomes, one) for one in outcomes} for how, outcomes in kept(kind).items()}
    counts = Counter(dict.fromkeys((one for one in kinds.OUTCOMES if one != kinds.MISSED), 0))
    for outcomes in ways.values():
        counts.update({one: len(cells) for one, cells in outcomes.items()})
    calls = dict.fromkeys(call for outcomes in ways.values() for cells in outcomes.values() for call in cells)
    lines = ["", f"### {kind.title}", "", ", ".join(f"{many:,} {one}" for one, many in counts.items()) + "."]
    lines += [f"Behind {calls_text(kind, list(calls))}.", ""]
    lines += ["| change | noticed at once by (calls) | later by (calls) | legal, or open | impossible behind |"]
    lines += ["|---|---|---|---|---|"]
    for how, outcomes in ways.items():
        why = {
            call: kind.excuse(kinds.Cell(On(call), how))
            for one in (kinds.LEGAL, kinds.OPEN)
            for call in outcomes.get(one, ())
        }
        said = "; ".join(
            f"{calls_text(kind, [one for one in why if why[one] == text])}: {text}"
            for text in dict.fromkeys(why.values())
        )
        away = outcomes.get(kinds.IMPOSSIBLE, {})
        gone = "all" if len(away) == len(calls) else calls_text(kind, list(away))
        lines.append(
            f"| {how} | {noticing(outcomes.get(kinds.NOTICED, {}))} | {noticing(outcomes.get(kinds.LATER, {}))} "
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
        lines += ["", f"## {group.value[0].upper()}{group.value[1:]}", ""]
        lines += ["| effect | meaning | rules |", "|---|---|---|"]
        for what in What:
            if what.group is group:
                rules = ", ".join(GOVERNED[what]) or "none: it is the cache's own affair"
                lines.append(f"| {what.value} | {what.meaning} | {rules} |")
        lines += ["", *group_table(group)]
    lines += ["", "## Where the frame is the law", ""]
    lines += ["Where an effect may happen, and no other law says for what: one that nobody asked for is noticed by the"]
    lines += ["frame alone.", "", "| effects | why |", "|---|---|"]
    lines += [f"| {', '.join(what.value for what in whats)} | {why} |" for whats, why in BY_FRAME_ALONE]
    lines += ["", "## Components, sparse host pools and ranks", "", KINDS_SAY]
    lines += [line for kind in KINDS for line in kind_part(kind)]
    lines += ["", "## Causes", "", "| cause | meaning |", "|---|---|"]
    lines += [f"| {cause.value} | {cause.meaning} |" for cause in Cause]
    lines += ["", "## Without a row", "", "| call | why |", "|---|---|"]
    lines += [f"| `{on}` | always comes with {', '.join(f'`{one}`' for one in rows)} |" for on, rows in FACETS.items()]
    lines += [f"| `{on}` | {why} |" for on, why in ELSEWHERE.items()]
    return "\n".join(lines) + "\n"


_GIVEN = re.compile(
    r"^ *```.*?^ *```$|^#[^\n]*$"  # what stays as it is: a block of code, a heading,
    r"|\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<goal>[^)\s]+)\)"  # a link,
    r"|(?P<tick>`?)(?<![\w/-])(?P<rule>[A-Z]+-\d\d)(?![\w-])(?P=tick)(?!`)"  # a rule's id,
    r"|`[^`\n]+`",  # other code
    re.MULTILINE | re.DOTALL,
)


def for_site(text: str, path: str) -> str:
    """A page as the site has it: a rule's id is a link, one to a source leads to its page or else is no link."""
    up, rules = "../" * path.count("/"), all_rules()

    def turned(found: re.Match[str]) -> str:
        if found["rule"] in rules:
            return f"[{found[0]}]({up}rules/{rules[found['rule']].pack}.md#{found['rule'].lower()})"
        if not found["goal"] or re.match(r"\w+:|#", found["goal"]):
            return found[0]
        goal, _, anchor = found["goal"].partition("#")
        source = os.path.normpath(f"docs/{path}/../{goal}")
        if re.fullmatch(r"docs/results/counterexamples/.+\.jsonl", source) and (ROOT / source).is_file():
            return f"[{found['text']}]({site_files.name_of(goal)})"
        page = page_of().get(source, "")
        if page:
            name = f"kvlitmus.{page[:-3].replace('/', '.')}.{anchor}" if page.startswith("reference/") else anchor
            return f"[{found['text']}]({up}{page}{f'#{name}' if anchor else ''})"
        return found[0] if source.startswith("docs/") else f"`{source}`"

    return _GIVEN.sub(turned, text)


def on_files(files: Any, *, config: Any) -> Any:
    """MkDocs asks which files there are: those of ``docs/``, and what is made here: pages, and findings as drawn."""
    from mkdocs.structure.files import File  # type: ignore[import-not-found, unused-ignore]

    sys.path[:0] = ROOMS  # MkDocs takes back what a hook has changed there while it was loaded
    made: dict[str, str | bytes] = {**pages(), "matrix.md": matrix.page(), **dict(site_files.pages())}
    for path, content in (made | site_files.assets()).items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(text: str, *, page: Any, **_: Any) -> str:
    """MkDocs has read a page."""
    page.meta.setdefault("tags", list(SOUGHT.get(page.file.src_uri, ())))
    return for_site(filled(text, page.file.src_uri), page.file.src_uri)


def filled(text: str, path: str) -> str:
    """A written page with what is made: parts between marks, rules of each proposal, verdicts of the reports."""
    return site_files.filled(matrix.with_rules(implement_page.filled(results.for_site(text, path))), path)
