"""A campaign in Markdown: a page for the night, and the text of an issue about what is new.

Whatever a cache handed out is shown as text and can't become markup, a link or a mention.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvlitmus.conformance.fuzz.dedupe import Distinct
from kvlitmus.conformance.fuzz.summary import CampaignSession, lines
from kvlitmus.conformance.report.markdown import escape, fenced
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless
from kvlitmus.spec.parts import all_rules

MOST = 10
"""Maximum number of findings that are told in full."""

MOST_CALLS = 60
"""So many calls of each, from the end."""


def page(outcome: CampaignSession) -> str:
    """The page of a session: its summary, then every finding."""
    head = [f"# kvlitmus fuzz: {escape(outcome.target)} {escape(outcome.target_version)}".rstrip(), ""]
    about = f"kvlitmus {escape(outcome.version)}, {escape(outcome.date)}, seed {outcome.settings.get('seed')}."
    body = [*head, about, "", fenced(list(lines(outcome))), ""]
    return "\n".join([*body, *told(outcome, outcome.distinct)]).rstrip() + "\n"


def title(outcome: CampaignSession) -> str:
    """The title of an issue about what is new; empty if nothing is."""
    rules = list(dict.fromkeys(rule for one in new(outcome) for rule in one.finding.rules))
    if not rules:
        return ""
    more = f" and {len(rules) - 3} more" if len(rules) > 3 else ""
    return f"kvlitmus: {', '.join(rules[:3])}{more} broken by {outcome.target}"


def text(outcome: CampaignSession) -> str:
    """The text of an issue about what is new; empty if nothing is.  Its first line is the title, after ``# ``."""
    found = new(outcome)
    if not found:
        return ""
    many = len(found)
    head = (
        f"A fuzz campaign on {escape(outcome.target)} {escape(outcome.target_version)} found "
        f"{'something' if many == 1 else f'{many} things'} that it did not know before."
    )
    how = f"kvlitmus {escape(outcome.version)}, {escape(outcome.date)}, seed {outcome.settings.get('seed')}."
    body = ["", head, "", how, "", *told(outcome, found)]
    return "\n".join([f"# {harmless(title(outcome), 250)}", *body]).rstrip() + "\n"


def new(outcome: CampaignSession) -> list[Distinct]:
    """The findings that an issue is about: not known before, and failing."""
    return [one for one in outcome.distinct if one.new and outcome.fails(one)]


def told(outcome: CampaignSession, found: list[Distinct]) -> Iterator[str]:
    """Findings in full."""
    rules = all_rules()
    for one in found[:MOST]:
        finding = one.finding
        yield f"## {escape(', '.join(finding.rules))}"
        yield ""
        for id in finding.rules:
            yield f"> **{escape(id)}** {escape(rules[id].text)}"
            yield ">"
        yield ""
        yield f"In {escape(finding.config.label)}, {len(finding.calls)} calls; the last one breaks it:"
        yield ""
        yield fenced([brief(call) for call in finding.calls[-MOST_CALLS:]])
        if finding.shortness:
            yield ""
            yield f"Shrunk: {escape(finding.shortness)}."
        yield ""
        if finding.detail:
            yield f"Seen: {escape(brief(finding.detail))}"
        else:
            yield f"Allowed: {escape(brief(finding.allowed))}"
            for fact, value in finding.seen.items():
                yield f"- {escape(fact.replace('_', ' '))}: {escape(brief(value))}"
        yield ""
        yield fenced([outcome.replayed(one.path)])
        yield ""
    if len(found) > MOST:
        yield f"And {len(found) - MOST} more, in the summary."
