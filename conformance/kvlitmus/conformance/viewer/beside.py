"""The reference beside a cache, as a page shows it: after each step in what the two differ.

What is a cache's to choose is no difference (:mod:`kvlitmus.conformance.beside`).  Where they first differ they have
parted.  Where nothing is compared the page says so, and since when the two have differed.  They may part steps before
the finding, whose play passes over what breaks other rules: then the tape is judged once more by all rules, and the
page says which of them that step breaks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from kvlitmus.conformance.beside.moments import MOST_STEPS, moments_of
from kvlitmus.conformance.history import again
from kvlitmus.conformance.tape.calls import TURNS
from kvlitmus.conformance.tape.forms import FormError
from kvlitmus.conformance.tape.lines import TapeError, TapeReader, encoded
from kvlitmus.conformance.viewer.page import NONE, Play
from kvlitmus.conformance.viewer.plain import answered, short
from kvlitmus.conformance.viewer.scenes import Beside, Drawn, Row, table

ALIKE = "Reference and cache: the same is cached, and the same is free"
APART = "Reference and cache: where they differ after this step"
SAME_ANSWER = "Reference and cache answered the same; what they hold was not looked at"
UNSEEN = "Reference and cache: not compared, since nothing was looked at after this step"
LATER = "Reference and cache: not compared here, but after step {}"
LOST = "The reference is not shown here: it was followed up to step {}"
LEFT = "Here the reference chose otherwise, which breaks no rule by itself: it is not followed from here on"
GONE = "The reference is not shown here: at step {} it chose otherwise, which breaks no rule by itself"
TOO_LONG = f"The reference is not shown here: the play has more than {MOST_STEPS:,} steps"
SINCE = "; they have differed since step {}"
"""What stands above the table, or in its place."""

DECIDES = "decides the same; how it reduces is not compared"
CHOSEN = "{}: to answer otherwise breaks no rule by itself"
"""What the reference answered, where that is not compared."""

EARLIER = "step {} breaks {}, which this play passes over; the differences before the finding come from there"
UNBROKEN = "step {} breaks no rule by itself; its difference shows at the finding"
"""What is said where the two part before the step of the finding."""

HEADER = 2
"""The line of the first step of a tape, behind its header."""


def shown(header: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], replay: str) -> Play:
    """A finding, to be drawn with the reference beside it; ``replay``: the command that plays it again."""
    found = beside(header, steps)
    return Play(header, steps, replay, found, before(header, steps, found))


def before(header: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], found: Mapping[int, Beside]) -> str:
    """What the two part by where that is before the step of the finding; else nothing."""
    first = first_of(steps)
    last = next((number for number, step in enumerate(steps, first) if "verdicts" in step), 0)
    parted = next((number for number, one in sorted(found.items()) if one.differs or (one.table or NONE)["rows"]), 0)
    if not 0 < parted < last:
        return ""
    step, rules = first_broken(header, steps)
    if 0 < step < last:
        return EARLIER.format(step, ", ".join(rules))
    return UNBROKEN.format(parted) if step == last else ""


def first_broken(header: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> tuple[int, tuple[str, ...]]:
    """The step that breaks a rule first, whichever that is, and the rules; 0 where that can't be told."""
    try:
        with TapeReader("a play", data=b"".join(map(encoded, (header, *steps)))) as reader:
            outcome = again.judged(reader, depth=reader.header.depth, keep_going=False)
    except (TapeError, FormError):
        return 0, ()
    for one in outcome.findings:
        return one.line - HEADER + first_of(steps), tuple(one.finding.rules)
    return 0, ()


def first_of(steps: Sequence[Mapping[str, Any]]) -> int:
    """The number of the first step: 0 where that is the look at the fresh cache."""
    return 1 if steps and "call" in steps[0] else 0


def beside(header: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[int, Beside]:
    """By step what the reference answered, and in what it differs; nothing of plays of which that isn't known."""
    if len(steps) > MOST_STEPS:
        nothing = Beside(table=table(TOO_LONG, [], []))
        return {number: nothing for number, _ in enumerate(steps, first_of(steps))}
    moments = moments_of(header, steps)
    answers = {step: answer for one in moments.values() for step, answer in one.answers.items()}
    left = next((number for number, one in moments.items() if one.left), 0)
    compared = sorted(moments)
    found: dict[int, Beside] = {}
    since = 0
    for number, step in enumerate(steps, first_of(steps)):
        if not compared or not (number or number in moments):
            continue
        known, moment = number in answers, moments.get(number)
        chose = known and moment is not None and moment.left
        answer = answer_of(step, answers[number], chose=chose) if known else ""
        differs = known and not chose and unlike(step, answers[number])
        told = answered(str(step.get("call")), step.get("raised", step.get("answer")))
        rows = [("answer", answer or "nothing", told or "nothing")] if differs else []
        rows += (moment.parts or ()) if moment is not None and not moment.left else ()
        if rows:
            since = since or number
            found[number] = Beside(answer, differs, differences(rows))
            continue
        if moment is not None and moment.parts == []:
            since = 0
        if moment is None:
            later = bisect_right(compared, number)
            last = GONE.format(left) if left else LOST.format(compared[-1])
            said = LATER.format(compared[later]) if later < len(compared) else last
        else:
            said = LEFT if moment.left else ALIKE if moment.parts is not None else SAME_ANSWER if answer else UNSEEN
        found[number] = Beside(answer, differs, table(said + (SINCE.format(since) if since else ""), [], []))
    return found


def answer_of(step: Mapping[str, Any], answer: Any, *, chose: bool) -> str:
    """What the reference answered to a step; ``chose``: it is elsewhere from there on."""
    call = str(step.get("call"))
    if chose:
        return CHOSEN.format(answered(call, answer))
    return DECIDES if call == TURNS and not unlike(step, answer) else answered(call, answer)


def unlike(step: Mapping[str, Any], answer: Any) -> bool:
    """Whether the reference answered otherwise than the cache did."""
    return bool(answer != step.get("answer") or ("raised" in step and answer != {"raised": step["raised"]}))


def differences(parts: Sequence[tuple[str, str, str]]) -> Drawn:
    """In what the two differ."""
    rows = [
        Row(about, [short(about, 160), short(mine, 200), short(theirs, 200)], odd=True) for about, mine, theirs in parts
    ]
    return table(APART, ["", "reference", "cache"], rows)
