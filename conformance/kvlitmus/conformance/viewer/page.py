"""The page of a play: one file of HTML with its style, its script, and all scenes, packed in parts.

Nothing is fetched, and a policy in the page itself lets nothing run but its own script, whatever a tape says.  Texts of
the tape are data, never markup: the few that stand in the page are escaped, and the script sets texts alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import islice
from typing import IO, NamedTuple, cast

from kvlitmus.conformance.run.results import SHORTNESS, whole_profile
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.changes import MARK, differ
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.viewer.components import Components
from kvlitmus.conformance.viewer.plain import fields, items, readable, short, told
from kvlitmus.conformance.viewer.prefix import Prefix
from kvlitmus.conformance.viewer.ranks import Ranks
from kvlitmus.conformance.viewer.scenes import KINDS, ODD, Beside, Drawn, Family, Scene, scenes, table
from kvlitmus.conformance.viewer.sparse import Sparse
from kvlitmus.conformance.viewer.stores import Stores
from kvlitmus.spec.law.facts import FACTS
from kvlitmus.spec.law.rule import in_force
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.config import Config

PART = 100
"""So many scenes are packed together: drawing one unpacks no more than these."""

FAULT = 200
"""No half of the line that says what is wrong is longer."""

LONG = 4_000
"""No text of a finding is longer on the page."""


class Play(NamedTuple):
    """What is drawn: the header of a tape, and the steps, each as it stands there.

    ``replay``: the command that plays it again, if there is one.  ``beside``: the reference, by step
    (:func:`kvlitmus.conformance.viewer.beside.beside`).  ``before``: how they parted before the finding.
    """

    header: Mapping[str, Json]
    steps: Iterable[Mapping[str, Json]]
    replay: str = ""
    beside: Mapping[int, Beside] | None = None
    before: str = ""


NONE = table("", [], [])
"""A table of nothing."""


class Summary(NamedTuple):
    """What stands above the plays of a run: a title, a line about it, and a table of texts below its head."""

    title: str
    about: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def family_of(header: Mapping[str, Json]) -> Family:
    """What is drawn of the cache of a tape."""
    config = fields(header.get("config"))
    pool = config.get("pool")
    if config.get("components"):
        return Components(config, frozenset(map(str, items(header.get("ports")))))
    if pool == "ranks":
        return Ranks()
    if pool == "sparse":
        return Sparse(config)
    return Stores() if pool == "store" else Prefix(config, profile_of(header))


def profile_of(header: Mapping[str, Json]) -> Mapping[str, Json]:
    """The legal choices of a cache, also those that are as usual, which a tape leaves out."""
    return whole_profile(fields(header.get("profile")))


def write(stream: IO[str], plays: Iterable[Play], *, summary: Summary | None = None) -> None:
    """Write the page of plays, one after the other; without a ``summary`` the first says what the page is called."""
    style, script = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    head, foot = files(__package__).joinpath("page.html").read_text(encoding="utf-8").split("<!-- scenes -->")
    rest = iter(plays)
    first = next(rest, None)
    header: Mapping[str, Json] = first.header if first else {}
    texts = {
        "policy": f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; base-uri 'none'",
        "title": escaped(summary.title) if summary else title_of(header),
        "about": escaped(summary.about) if summary else about(header),
        "summary": summary_of(summary) if summary else "",
    }
    stream.write(filled(head, {**texts, "style": style}))
    told: list[dict[str, object]] = []
    for play in (first, *rest) if first else ():
        told.append(write_play(stream, play, len(told)))
    meta = {"plays": told, "part": PART, "kinds": KINDS, "odd": sorted(ODD)}
    stream.write(filled(foot, {"meta": as_data(meta), "script": script}))


def write_play(stream: IO[str], play: Play, number: int) -> dict[str, object]:
    """Write one play: what is broken, and its scenes; returns what the script needs to know of it."""
    header, steps, replay, besides, before = play
    finding = fields(header.get("finding"))
    count = broken = parted = 0
    since = ""
    calls: list[int] = []
    texts: list[Json] = []
    drawn = scenes(read(steps, texts), [family_of(header)], besides)
    while some := list(islice(drawn, PART)):
        stream.write(packed(number, some))
        count += len(some)
        calls += [one["n"] for one in some if one["begins"]]
        broken = broken or next((one["n"] for one in some if one["verdicts"]), 0)
        if not parted:
            parts = (one for one in some if one["unlike"] or (one["beside"] or NONE)["rows"])
            parted, since = next(((one["n"], one["text"]) for one in parts), (0, ""))
    where = Where(broken, calls, parted if parted < broken else 0, since, before)
    stream.write(finding_of(number, {"calls": texts, **finding}, replay, where, profile_of(header)))
    return {
        "title": html.unescape(title_of(header)),
        "steps": count,
        "broken": broken,
        "parted": parted or parted_at(finding, calls, count),
    }


def read(steps: Iterable[Mapping[str, Json]], texts: list[Json]) -> Iterator[Mapping[str, Json]]:
    """The steps; ``texts`` gets those of the calls, which a finding doesn't repeat."""
    for step in steps:
        if "text" in step:
            texts.append(step["text"])
        yield step


def filled(template: str, texts: Mapping[str, str]) -> str:
    """A template with its texts, each where ``{{name}}`` stands."""
    first, *rest = template.split("{{")
    return first + "".join(texts[name] + after for name, after in (one.split("}}", 1) for one in rest))


def packed(play: int, some: list[Scene]) -> str:
    """A part: scenes, one a line, compressed, in base64; each but the first by what is other than in the one before."""
    told: list[Json] = []
    known: dict[tuple[Json, ...], list[Json]] = {}
    before: Json = None
    for one in some:
        now = written(one, known)
        edits: list[Json] = []
        if before is not None:
            differ(before, now, [], edits)
        told.append(now if before is None else {MARK: edits})
        before = now
    text = "\n".join(json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in told)
    data = base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()
    return f'<script type="text/plain" class="part" data-play="{play}">{data}</script>\n'


def written(scene: Scene, known: dict[tuple[Json, ...], list[Json]]) -> Json:
    """A scene in JSON's own types; squares that are alike are one list, which is compared at once: ``known``."""
    pools = [
        {**one, "squares": [known.setdefault(square, [*square]) for square in one["squares"]]} for one in scene["pools"]
    ]
    tables = [drawn_written(one) for one in scene["tables"]]
    beside = scene["beside"] and drawn_written(scene["beside"])
    jobs = [[*one] for one in scene["jobs"]]
    return cast("Json", {**scene, "pools": pools, "tables": tables, "beside": beside, "jobs": jobs})


def drawn_written(drawn: Drawn) -> dict[str, object]:
    """A table in JSON's own types."""
    return {**drawn, "rows": [[*one] for one in drawn["rows"]]}


def as_data(value: object) -> str:
    """JSON in the middle of a page: nothing in it ends the element that it stands in."""
    return json.dumps(value, ensure_ascii=True).replace("<", "\\u003c")


def digest(text: str) -> str:
    """The digest by which a policy knows a style or a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def escaped(value: object) -> str:
    """Any text as a text of the page."""
    return html.escape(harmless(value, LONG))


def title_of(header: Mapping[str, Json]) -> str:
    """What the page is called."""
    rules = ", ".join(rules_of(fields(header.get("finding"))))
    target = str(header.get("target") or "a cache")
    return escaped(f"{rules}: {target}" if rules else target)


def rules_of(finding: Mapping[str, Json]) -> list[str]:
    """The rules that are broken, those of today: a retired one has no sentence any more."""
    return [*dict.fromkeys(in_force(str(one)) for one in items(finding.get("rules")))]


def about(header: Mapping[str, Json]) -> str:
    """Which release it is, in which configuration, and what was played."""
    item = fields(header.get("item"))
    words = [
        str(header.get("version") or header.get("cache") or ""),
        label_of(fields(header.get("config"))),
        " ".join(str(item.get(name)) for name in ("kind", "name") if item.get(name)),
        f"seed {item['seed']}" if item.get("kind") == "random" else "",
        f"kvlitmus {header.get('kvlitmus', '')}",
    ]
    return " · ".join(escaped(one) for one in words if one)


def label_of(config: Mapping[str, Json]) -> str:
    """A configuration by its short name; of one that this version doesn't know all that isn't off."""
    try:
        return Config(**config).label  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ", ".join(f"{name} {one}" for name, one in config.items() if one not in (None, False, "", "none", 0))


def summary_of(summary: Summary) -> str:
    """The table of a summary."""
    head, *rows = [
        "".join(f"<{tag}>{escaped(cell)}</{tag}>" for cell in row)
        for tag, row in (("th", summary.head), *(("td", row) for row in summary.rows))
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    name = f"{len(rows)} rules"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<details class="scroll"><summary>{name}</summary>{table}</details>'


class Where(NamedTuple):
    """At which steps a finding happens: where it is ``broken``, and at which its calls begin, as findings count them.

    ``parted``: from which earlier step on cache and reference differ, 0 where none is known; ``since``: its call;
    ``before``: what breaks there, see :class:`Play`.
    """

    broken: int
    calls: Sequence[int] = ()
    parted: int = 0
    since: str = ""
    before: str = ""


NOWHERE = Where(0)


def finding_of(
    number: int,
    finding: Mapping[str, Json],
    replay: str,
    where: Where = NOWHERE,
    profile: Mapping[str, Json] | None = None,
) -> str:
    """What is broken in which step, what was seen, and what is allowed; then the sentences of the rules.

    ``replay``: how to play it again.  ``profile``: what the cache declares; what the finding speaks of is shown.
    """
    kind, label = ("finding", "What is broken") if finding else ("played", "What was played")
    told = [f'<section class="{kind} play" data-play="{number}" aria-label="{label}">']
    ids = rules_of(finding)
    told += [headline(ids[0], where), *fault_of(finding, ids[0])] if ids else []
    told += [
        "<details open><summary>What was allowed, and what was seen</summary>",
        *facts_of(finding, ids, where, profile),
    ]
    said = bool(ids) and ids[0] in all_rules() and all_rules()[ids[0]].text == finding.get("allowed")
    told += [sentence(ids[0])] if ids and not said else []
    told.append("</details>")
    if ids[1:]:
        more = "".join(f"<p>{named(id)}</p>{sentence(id)}" for id in ids[1:])
        told.append(f"<details><summary>It breaks {', '.join(map(escaped, ids[1:]))} too</summary>{more}</details>")
    if replay:
        told.append(
            f'<p class="replay">play it again: <code>{escaped(replay)}</code> <button type="button">Copy</button></p>'
        )
    texts = items(finding.get("calls"))
    steps = where.calls if len(where.calls) == len(texts) else range(1, len(texts) + 1)
    if texts:
        listed = "".join(f'<li value="{at}">{escaped(one)}</li>' for at, one in zip(steps, texts, strict=True))
        told.append(f"<noscript><ol>{listed}</ol></noscript>")
    told.append("</section>")
    return "\n".join(told)


def headline(id: str, where: Where) -> str:
    """Where a rule is broken, and since when the cache has not been as the reference.

    What a cache makes of a misuse is asked by the calls behind it: the last one shows it, and is not to blame.
    """
    call = bisect_right(where.calls, where.broken)
    at = f"Step {where.broken}" if where.broken else "The last call"
    at += f" (call {call})" if where.broken and call not in (0, where.broken) else ""
    misused = is_misuse(id) and where.parted
    line = f"<h2>{at} shows a broken {named(id)}</h2>" if misused else f"<h2>{at} breaks {named(id)}</h2>"
    if where.parted:
        since = f"since step {where.parted}: <code>{escaped(where.since)}</code>"
        line += f'<p class="since">Cache and reference differ {since}</p>'
    return line


def fault_of(finding: Mapping[str, Json], id: str) -> list[str]:
    """What is wrong here, in one line: what was seen, and what would have been right."""
    rule, allowed = all_rules().get(id), finding.get("allowed")
    seen = "; ".join(f"{name.replace('_', ' ')} {one}" for name, one in observed(finding, id).items())
    seen = seen or str(finding.get("detail") or "")
    right = allowed if rule and allowed != rule.text else None
    line = ". ".join(
        f"{word}: {short(readable(one), FAULT)}" for word, one in (("Seen", seen), ("Allowed", right)) if one
    )
    return [f'<p class="fault">{escaped(line)}</p>'] if line else []


def observed(finding: Mapping[str, Json], id: str) -> dict[str, Json]:
    """The facts of a finding that there is something of, but for those that ``allowed`` tells already."""
    quoted, allowed = quoted_in(id), str(finding.get("allowed"))
    return {
        name: one
        for name, one in fields(finding.get("seen")).items()
        if one not in EMPTY and not (name in quoted and str(one) in allowed)
    }


def quoted_in(id: str) -> list[str]:
    """The facts that a rule's text on what is allowed quotes."""
    rule = all_rules().get(id)
    return re.findall(r"{(\w+)", rule.allowed) if rule else []


def is_misuse(id: str) -> bool:
    """Whether a rule is about what a cache makes of calls that break the contract."""
    return id in all_rules() and all_rules()[id].pack == "misuse"


def facts_of(
    finding: Mapping[str, Json], ids: Sequence[str], where: Where, profile: Mapping[str, Json] | None
) -> list[str]:
    """What is allowed, and what was seen, each fact with what it means."""
    short_of = {"minimal": "minimal: no part of it breaks the rule", **SHORTNESS}
    minimal = str(finding.get("minimal") or "")
    misuse, facts = any(map(is_misuse, ids)), fields(finding.get("seen"))
    first = ids[0] if ids else ""
    seen = [(name, one, meaning(name, misuse=misuse)) for name, one in observed(finding, first).items()]
    quoted = quoted_in(first)
    empty = ", ".join(name.replace("_", " ") for name, one in facts.items() if one in EMPTY)
    rows = [
        ("call", finding.get("call"), ""),
        ("allowed", finding.get("allowed"), meaning(quoted[0], misuse=misuse) if len(quoted) == 1 else ""),
        ("declared", declared(str(finding.get("allowed")), profile or {}), ""),
        *seen,
        ("seen empty", empty, ""),
        ("detail", finding.get("detail"), ""),
        *(("parted", in_steps(str(one), where.calls), "") for one in items(finding.get("parted"))),
        ("before", where.before, ""),
        ("broken before", ", ".join(map(str, items(finding.get("after")))), ""),
        ("length", short_of.get(minimal, minimal) or finding.get("not_minimal"), ""),
    ]
    told = [
        f"<div><dt>{escaped(name.replace('_', ' '))}</dt><dd>{escaped(readable(one))}"
        + (f' <span class="means">{escaped(means)}</span>' if means else "")
        + "</dd></div>"
        for name, one, means in rows
        if one
    ]
    return ["<dl>", *told, "</dl>"]


EMPTY = ("[]", "{}", "()")
"""Facts that there is nothing of: they share a line."""


def meaning(name: str, *, misuse: bool) -> str:
    """What a fact means; one about a misuse is of the moment behind it, whatever calls follow."""
    means = FACTS[name].meaning if name in FACTS else ""
    return means.replace("after the call", "after the misuse") if misuse else means


def named(id: str) -> str:
    """A rule by its id and title."""
    rule = all_rules().get(id)
    return f"<b>{escaped(id)}</b>" + (f": {escaped(rule.title)}" if rule else "")


def declared(text: str, profile: Mapping[str, Json]) -> str:
    """The fields of a profile that a text names, with their values."""
    named = {name: short(told(profile[name]), 60) for name in re.findall(r"\w+", text) if name in profile}
    return ", ".join(f"{name} {one}" for name, one in named.items())


def sentence(id: str) -> str:
    """What a rule says."""
    rule = all_rules().get(id)
    return f"<p>{escaped(rule.text.replace('``', '').replace('*', ''))}</p>" if rule else ""


CALL = re.compile(r"call (\d{1,9})(?=:)")
"""After which call cache and reference parted, as a finding tells it."""


def in_steps(parted: str, calls: Sequence[int]) -> str:
    """The same by the step that ends that call, as the page counts; as it stands where that isn't known.

    ``calls``: the steps at which the calls that findings count begin; one that the suite composes has several steps.
    """
    told = CALL.match(parted)
    return f"step {calls[int(told[1])] - 1}{parted[told.end() :]}" if told and int(told[1]) < len(calls) else parted


def parted_at(finding: Mapping[str, Json], calls: Sequence[int], count: int) -> int:
    """The step after which cache and reference first weren't alike; 0 where that isn't told."""
    told = [int(one[1]) for one in map(CALL.match, map(str, items(finding.get("parted")))) if one]
    call = min(told, default=0)
    if not 0 < call <= len(calls):
        return 0
    return calls[call] - 1 if call < len(calls) else count - 1
