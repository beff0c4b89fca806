"""Pages of the site that are made from the rooms themselves; a hook of MkDocs, and plain functions for the tests.

The rules are rendered part by part from the register, so that the site can't say anything else
than the judge does.  The reference and the ports are left to mkdocstrings, which reads their
docstrings and shows their source.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / room) for room in ("spec", "reference", "conformance") if str(ROOT / room) not in sys.path]

from kvlitmus.spec.facts import FACTS  # noqa: E402
from kvlitmus.spec.parts import PARTS  # noqa: E402
from kvlitmus.spec.rule import RETIRED, Kind, Rule, all_rules  # noqa: E402

REFERENCE = (
    *("pool", "tree", "policy", "cache", "request", "hashing", "prefetch"),
    *("hierarchy", "tier", "backup", "load", "put", "fetch", "life", "event", "store"),
)
"""The modules of the reference, in the order in which they are best read."""

DEPTHS = (
    "0: return values, and what the suite itself wrote",
    "1: counters",
    "2: events",
    "3: a full snapshot",
)


def pages() -> dict[str, str]:
    """All generated pages: path → Markdown."""
    places = {f"kvlitmus.spec.{part}": at for at, part in enumerate(PARTS)}
    rules = dict(sorted(all_rules().items(), key=lambda one: places[one[1].predicate.__module__]))
    packs = {pack: [one for one in rules.values() if one.pack == pack] for pack in dict.fromkeys(_packs(rules))}
    made = {"rules/index.md": rules_index(packs), "rules/facts.md": facts_page(rules)}
    made |= {f"rules/{pack}.md": pack_page(mine) for pack, mine in packs.items()}
    made |= {f"reference/{name}.md": reference_page(name, rules) for name in REFERENCE}
    made["reference/index.md"] = reference_index()
    made["ports.md"] = _autodoc("Ports and profile", "kvlitmus.conformance.ports")
    made["tier_ports.md"] = _autodoc("Ports of a hierarchy", "kvlitmus.conformance.tier_ports")
    made["store_ports.md"] = _autodoc("Ports of a page store", "kvlitmus.conformance.store_ports")
    if not (ROOT / "docs" / "results" / "index.md").exists():
        made["results/index.md"] = results_page(ROOT / "docs" / "results")
    for name in ("CHANGELOG", "CONTRIBUTING"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        made[f"{name.lower()}.md"] = re.sub(r"\]\((\w+)\.md\)", lambda link: f"]({link[1].lower()}.md)", text)
    return made


def _packs(rules: Mapping[str, Rule]) -> Iterable[str]:
    return (rule.pack for rule in rules.values())


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
        lines += ["", "## Retired", "", *(f"- {id}: {why}" for id, why in RETIRED.items())]
    return "\n".join(lines) + "\n"


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
    lines = [f"## {rule.id}: {rule.title} {{ #{rule.id.lower()} }}", "", f"> {rule.text}", "", " · ".join(about), ""]
    if rule.facts:
        lines.append(f"- Facts: {', '.join(f'[{name}](facts.md#{name})' for name in rule.facts)}")
    if rule.allowed:
        lines.append(f"- What would have been right: `{rule.allowed}`")
    lines.append(f"- From: {linked(rule.source)}")
    if rule.reference:
        goal = f"../reference/{_part(rule)}.md#kvlitmus.reference.{rule.reference}"
        lines.append(f"- How the reference keeps it: [{rule.reference}]({goal})")
    if rule.facts:
        source = [f"    {line}" for line in inspect.getsource(rule.predicate).rstrip().splitlines()]
        lines += ["", '??? note "as logic"', "", "    ```python", *source, "    ```"]
    return lines


def facts_page(rules: Mapping[str, Rule]) -> str:
    """Every fact, with the least depth at which it is known and the rules that speak of it."""
    lines = ["# Facts", "", "What rules speak of, and the least depth of observation at which a judge can know it.", ""]
    for name, fact in FACTS.items():
        users = [f"[{one.id}]({one.pack}.md#{one.id.lower()})" for one in rules.values() if name in one.facts]
        lines += [f"## {name} {{ #{name} }}", "", f"{fact.meaning[0].upper()}{fact.meaning[1:]}.", ""]
        lines += [f"Depth {fact.depth}; {', '.join(users) or 'no rule'}.", ""]
    return "\n".join(lines) + "\n"


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


def results_page(folder: Path) -> str:
    """The committed reports, each with the tally of its verdicts; used where nobody has written more about them."""
    lines = ["# Results", ""]
    for path in sorted(folder.rglob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict) and data.get("kind") == "kvlitmus report":
            tally = ", ".join(f"{many} {name}" for name, many in data["totals"]["verdicts"].items() if many)
            lines.append(f"- {data['stamps']['target']['name']}, {data['stamps']['date']}: {tally}")
    return "\n".join([*lines, "" if lines[2:] else "No report is committed yet."]) + "\n"


def _part(rule: Rule) -> str:
    return rule.reference.partition(".")[0]


def _module(name: str) -> ModuleType:
    import importlib

    return importlib.import_module(f"kvlitmus.reference.{name}")


def _autodoc(title: str, module: str) -> str:
    return f"# {title}\n\n::: {module}\n"


def prose(module: ModuleType) -> tuple[str, str]:
    """A module's docstring as Markdown: its first line as a title, and the rest."""
    text = markdown(inspect.getdoc(module) or module.__name__)
    title, _, body = text.partition("\n")
    return title.rstrip("."), body.strip()


def markdown(text: str) -> str:
    """A docstring as Markdown: roles become code, lists begin with a dash."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?([\w]+)`", r"`\1`", text)
    text = text.replace("``", "`")
    return re.sub(r"^\* ", "- ", text, flags=re.MULTILINE)


def linked(source: str) -> str:
    """Where a rule comes from, with links to the table of provenance and to upstream."""
    source = re.sub(r"\bR-[A-Z0-9]+-\d+", lambda found: f"[{found[0]}](../map.md)", source)
    owners = {"sglang": "sgl-project/sglang", "vllm": "vllm-project/vllm", "LMCache": "LMCache/LMCache"}
    return re.sub(
        r"(?<![-/\w])(sglang|vllm|LMCache)#(\d+)",
        lambda found: f"[{found[0]}](https://github.com/{owners[found[1]]}/issues/{found[2]})",
        source,
    )


def on_files(files: Any, *, config: Any) -> Any:
    """MkDocs asks which files there are: those of ``docs/``, and the pages made here."""
    from mkdocs.structure.files import File  # type: ignore[import-not-found, unused-ignore]

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files
