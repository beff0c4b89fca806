"""The page of a play: one file of HTML with its style, its script, and all scenes, packed in parts.

Nothing is fetched, and a policy in the page itself lets nothing run but its own script, whatever a tape says.  Texts of
the tape are data, never markup: the few that stand in the page are escaped, and the script sets texts alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from itertools import islice
from typing import IO

from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.viewer.components import Components
from kvlitmus.conformance.viewer.plain import fields, items, number
from kvlitmus.conformance.viewer.prefix import Prefix
from kvlitmus.conformance.viewer.ranks import Ranks
from kvlitmus.conformance.viewer.scenes import KINDS, ODD, Family, Scene, scenes
from kvlitmus.conformance.viewer.sparse import Sparse
from kvlitmus.conformance.viewer.stores import Stores
from kvlitmus.spec.parts import all_rules

PART = 100
"""So many scenes are packed together: drawing one unpacks no more than these."""

LONG = 4_000
"""No text of a finding is longer on the page."""

Play = tuple[Mapping[str, Json], Iterable[Mapping[str, Json]]]
"""A header, and the steps, each as it stands on a tape."""


def family_of(header: Mapping[str, Json]) -> Family:
    """What is drawn of the cache of a tape."""
    config, profile = fields(header.get("config")), fields(header.get("profile"))
    pool = config.get("pool")
    if config.get("components"):
        return Components(config, frozenset(map(str, items(header.get("ports")))))
    if pool == "ranks":
        return Ranks()
    if pool == "sparse":
        return Sparse(config)
    return Stores() if pool == "store" else Prefix(config, profile)


def write(stream: IO[str], play: Play, *, replay: str = "") -> None:
    """Write the page of a play.  ``replay``: the command that plays it again."""
    header, steps = play
    style, script = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    finding = fields(header.get("finding"))
    policy = f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; base-uri 'none'"
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    head, foot = template.split("<!-- scenes -->")
    texts = {
        "policy": policy,
        "title": title_of(header),
        "about": about(header),
        "calls": "\n".join(f"<li>{escaped(one)}</li>" for one in items(finding.get("calls"))),
        "finding": finding_of(finding),
    }
    stream.write(filled(head, {**texts, "style": style}))
    count = broken = 0
    told = iter(scenes(steps, [family_of(header)]))
    while some := list(islice(told, PART)):
        stream.write(packed(some))
        count += len(some)
        broken = broken or next((one["n"] for one in some if one["verdicts"]), 0)
    meta = {
        "steps": count,
        "broken": broken,
        "part": PART,
        "kinds": KINDS,
        "odd": sorted(ODD),
        "parted": parted_at(finding),
    }
    stream.write(filled(foot, {"meta": as_data(meta), "script": script, "replay": escaped(replay)}))


def filled(template: str, texts: Mapping[str, str]) -> str:
    """A template with its texts, each where ``{{name}}`` stands."""
    first, *rest = template.split("{{")
    return first + "".join(texts[name] + after for name, after in (one.split("}}", 1) for one in rest))


def packed(some: list[Scene]) -> str:
    """A part: scenes, one a line, compressed, in base64."""
    text = "\n".join(json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in some)
    data = base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()
    return f'<script type="text/plain" class="part">{data}</script>\n'


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
    rules = ", ".join(map(str, items(fields(header.get("finding")).get("rules"))))
    target = str(header.get("target") or "a cache")
    return escaped(f"{rules}: {target}" if rules else target)


def about(header: Mapping[str, Json]) -> str:
    """Which cache it is, in which configuration, and what was played."""
    config = fields(header.get("config"))
    shown = {name: one for name, one in config.items() if one not in (None, False, "", "none", 0)}
    item = fields(header.get("item"))
    words = [
        str(header.get("target") or ""),
        str(header.get("version") or header.get("cache") or ""),
        ", ".join(f"{name} {one}" for name, one in shown.items()),
        " ".join(str(item.get(name)) for name in ("kind", "name") if item.get(name)),
        f"seed {item['seed']}" if item.get("kind") == "random" else "",
        f"kvlitmus {header.get('kvlitmus', '')}",
    ]
    return " · ".join(escaped(one) for one in words if one)


def finding_of(finding: Mapping[str, Json]) -> str:
    """The broken rules: what each says, and of the first what was allowed and what was seen."""
    if not finding:
        return ""
    known = all_rules()
    told = ['<section id="finding" class="finding" aria-label="What is broken">']
    for id in map(str, items(finding.get("rules"))):
        rule = known.get(id)
        title = f" {escaped(rule.title)}" if rule else ""
        told.append(f"<h2><b>{escaped(id)}</b>{title}</h2>")
        told.append(f"<p>{escaped(rule.text.replace('``', ''))}</p>" if rule else "")
    rows = [("call", finding.get("call")), ("allowed", finding.get("allowed")), *fields(finding.get("seen")).items()]
    rows += [("detail", finding.get("detail")), *(("parted", one) for one in items(finding.get("parted")))]
    rows += [("after", ", ".join(map(str, items(finding.get("after")))))]
    rows += [("length", finding.get("minimal") or finding.get("not_minimal"))]
    told.append("<dl>")
    told += [f"<dt>{escaped(name.replace('_', ' '))}</dt><dd>{escaped(one)}</dd>" for name, one in rows if one]
    told.append("</dl></section>")
    return "\n".join(told)


def parted_at(finding: Mapping[str, Json]) -> int:
    """The step after which cache and reference first weren't alike; 0 where that isn't told."""
    words = [str(one).split(":")[0].split() for one in items(finding.get("parted"))]
    calls = [int(one[1]) for one in words if len(one) > 1 and one[0] == "call" and one[1].isdecimal()]
    return number(min(calls, default=0))
