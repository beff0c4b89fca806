"""The life of a prefetch.

It goes from the call that asks for it to the call that ends it for its request.  A poll, an abort, a tick or the end of storage ends a prefetch at once, whatever is under way for it then: the anchor's
protection and the quota are given back.  A job that is still listed is nobody's any more, and goes at its next advance.
"""

from __future__ import annotations

from kvlitmus.spec.words.transitions import NONE, Table, Transition

QUERY, ANSWERED, REVOKED, FETCH, ENDED = STAGES = ("query", "answered", "revoked", "fetch", "ended")
"""The stages in which a request waits."""

COMMITTED, ABORTED, DROPPED, CUT_OFF = ENDS = ("committed", "aborted", "dropped", "cut off")
"""How it may end."""

STATES = {
    NONE: "No prefetch of this request is under way.",
    QUERY: "Storage is being asked how many of the pages it has.",
    ANSWERED: "It has told, and a tick is to take memory for as many (where memory is reserved at the hit).",
    REVOKED: "It has too few; a tick is to take note of that.",
    FETCH: "The pages are being read, one after the other.",
    ENDED: "The read is over: complete, or cut short by a page that is missing, too short, or raises.",
    COMMITTED: "What was read, if anything, is cached; the request need not wait.",
    ABORTED: "The request is gone; nothing is cached.",
    DROPPED: "There was too little to read, or no memory; the request need not wait.",
    CUT_OFF: "Storage is gone, or everything is forgotten; nothing is cached.",
}
"""What each state means."""

KIND = "prefetch"
OTHERS = "caches that commit what was read at ticks (`commit` = tick), such as SGLang 0.5.23"

PREFETCHES = Table(
    STATES,
    (
        Transition((KIND,), (NONE,), ("prefetch",), QUERY, "The gates are open, and there is something to read."),
        Transition((KIND,), (QUERY,), ("advance",), FETCH, "Storage has enough, and memory is reserved already."),
        Transition((KIND,), (QUERY,), ("advance",), REVOKED, "Storage has too little."),
        Transition((KIND,), (QUERY,), ("advance",), ANSWERED, "Memory is reserved at the hit, by the next tick."),
        Transition(
            (KIND,), (ANSWERED,), ("tick",), FETCH, "There is memory for what storage has, or for enough of it."
        ),
        Transition((KIND,), (ANSWERED,), ("tick",), DROPPED, "Storage has too little, or there is no memory."),
        Transition((KIND,), (REVOKED,), ("tick",), DROPPED, "The tick takes note."),
        Transition((KIND,), (FETCH,), ("advance",), ENDED, "Nothing more will come."),
        Transition((KIND,), STAGES, ("poll",), COMMITTED, "The stop policy lets the request go on."),
        Transition((KIND,), (ENDED,), ("tick",), COMMITTED, "A tick commits what has ended.", OTHERS),
        Transition((KIND,), STAGES, ("abandon",), ABORTED, "The waiting request is aborted."),
        Transition((KIND,), STAGES, ("detach", "reset"), CUT_OFF, "There is no storage; or nothing at all."),
    ),
)
"""The states of prefetches and the legal steps between them."""
