"""Calls: what every port owes its caller, whatever the cache does inside.

These rules have no predicate over facts: they are kept or broken by the call itself, and the
judge blames them when a call raises, doesn't come back, or answers with something that is not
what the port promises.
"""

from __future__ import annotations

from kvlitmus.spec.law.rule import Kind, rule


@rule("PORT-01", kind=Kind.PROCEDURE, source="design; sglang#28692, sglang#40128")
def a_legal_call_returns() -> bool:
    """A call that the contract allows MUST return: it raises nothing."""
    return True


@rule("PORT-02", kind=Kind.PROCEDURE, source="design; sglang#4082")
def a_call_ends() -> bool:
    """A call MUST come back within the time limit. It MUST NOT end the process."""
    return True


@rule("PORT-03", kind=Kind.PROCEDURE, source="design")
def an_answer_has_the_promised_form() -> bool:
    """An answer MUST have the form that the port promises: slots are non-negative integers of whatever class, lengths are counts, a snapshot lists parents before children."""
    return True


@rule("PORT-04", kind=Kind.PROCEDURE, source="design; sglang#31296")
def arguments_and_earlier_answers_stay_as_they_are() -> bool:
    """A call MUST NOT change the sequences that were passed to it, nor those that an earlier call returned."""
    return True
