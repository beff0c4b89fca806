"""The life of a job.

A job is work in the background; its life goes from its beginning to the call that takes note of its end.  It goes on only when it is advanced (:class:`~kvlitmus.spec.interface.tiers.Steps`), and a copy's or a put's end takes
effect at a tick.  Between two ticks nothing changes behind the scheduler's back, but that storage may go (``detach``)
and everything may be forgotten (``reset``).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.interface.tiers import BACKUP, FETCH, JOB_KINDS, LOAD, PUT, QUERY, Job
from kvlitmus.spec.law.actions import ACTIONS
from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix import calls, work_calls
from kvlitmus.spec.prefix.rules import tier as _tier  # noqa: F401 - its facts
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.transitions import NONE, Step, Table, Transition

QUEUED, UNDER_WAY, LANDED, FAILED, GONE = "queued", "under way", "landed", "failed", "gone"

STATES = {
    NONE: "It hasn't begun.",
    QUEUED: "It is behind another job in one queue and can't be advanced yet (not `ready`).",
    UNDER_WAY: "It can be advanced.",
    LANDED: "The work itself is over, and only the next tick's notice is missing.",
    FAILED: "As landed, but without success: what was to be copied isn't there.",
    GONE: "It is listed no more: a tick has taken note of it, or it was nobody's any more.",
}
"""What each state means."""

DONE, PART, SHORT, FAIL = ADVANCES = ("advance done", "advance part", "advance short", "advance fail")
"""The causes that are the job's own advance, by outcome; the advance of another job is ``advance``."""

INSERTS = (On.INSERT, On.PUBLISH, On.PUBLISH_UPTO, On.END, On.END_UPTO)
"""The calls that insert."""

LOADS = ("load_back", "load_back_within")
SPILLS = ("evict", "begin", "grow", "fork", "resume", *LOADS)
"""The calls that make room on the device."""

STORING = (QUERY, FETCH, PUT)
AT_TICKS = "caches that take note of the end of a fetch at the next tick (`commit` = tick), such as SGLang 0.5.23"
AT_ONCE = "caches whose copies are over when the call that begins them returns"
IN_QUEUES = "caches with a queue for each kind of job, such as SGLang 0.5.23"
IN_ONE_QUEUE = "caches in which copies wait behind what goes to and from storage"

_BEGINNINGS = (
    Transition((BACKUP,), (NONE,), INSERTS, UNDER_WAY, "A page was used often enough, and its parent is backed."),
    Transition((BACKUP, LOAD), (NONE,), ("tick",), UNDER_WAY, "A copy that failed is needed, and is made once more."),
    Transition((LOAD,), (NONE,), LOADS, UNDER_WAY, "What is on the host alone is brought back."),
    Transition((QUERY,), (NONE,), ("prefetch",), UNDER_WAY, "Storage is asked what it has."),
    Transition((FETCH,), (NONE,), ("advance",), UNDER_WAY, "Its query was advanced, and storage has enough."),
    Transition((FETCH,), (NONE,), ("tick",), UNDER_WAY, "The same, where memory is reserved at the hit, by a tick."),
    Transition((PUT,), (NONE,), INSERTS, UNDER_WAY, "Pages were used that are backed and not stored."),
    Transition((PUT,), (NONE,), ("tick",), UNDER_WAY, "A backup has landed."),
    Transition((PUT,), (NONE,), SPILLS, UNDER_WAY, "An eviction under write-back has copied pages to the host."),
)

_COPIES = (BACKUP, LOAD)

JOBS = Table(
    STATES,
    (
        *_BEGINNINGS,
        *(one._replace(after=QUEUED, elsewhere=IN_QUEUES) for one in _BEGINNINGS),
        *(one._replace(after=LANDED, elsewhere=AT_ONCE) for one in _BEGINNINGS if {*one.kinds} <= {*_COPIES}),
        Transition(JOB_KINDS, (QUEUED,), ("advance", "tick"), UNDER_WAY, "The job before it is over.", IN_QUEUES),
        Transition(_COPIES, (UNDER_WAY,), (DONE,), LANDED, "Everything is copied."),
        Transition((LOAD,), (UNDER_WAY,), (PART,), UNDER_WAY, "Some more layers are copied."),
        Transition((LOAD,), (UNDER_WAY,), (PART,), LANDED, "The last layers are copied."),
        Transition(_COPIES, (UNDER_WAY,), (FAIL,), FAILED, "The copy ends where it is."),
        Transition(
            _COPIES,
            (LANDED,),
            ("tick",),
            GONE,
            "In the order of submission, unless `copy_acks` says any: one that is not over holds others up.",
        ),
        Transition(_COPIES, (FAILED,), ("tick",), GONE, "Given up, or made once more by another job."),
        Transition((QUERY,), (UNDER_WAY,), (DONE, SHORT, FAIL), GONE, "A fetch begins; or nobody waits any more."),
        Transition(
            (QUERY,), (UNDER_WAY,), (DONE, SHORT, FAIL), LANDED, "Storage has too little; or memory is taken at a tick."
        ),
        Transition((QUERY,), (LANDED,), ("tick",), GONE, "The prefetch is dropped; or its fetch begins."),
        Transition((FETCH,), (UNDER_WAY,), (PART,), UNDER_WAY, "Some more pages are read."),
        Transition(
            (FETCH,), (UNDER_WAY,), (DONE, PART, SHORT, FAIL), GONE, "Nothing more will come; or nobody waits any more."
        ),
        Transition((FETCH,), (UNDER_WAY,), (DONE, PART, SHORT, FAIL), LANDED, "Nothing more will come.", AT_TICKS),
        Transition((FETCH,), (LANDED,), ("tick",), GONE, "What was read is committed.", AT_TICKS),
        Transition((PUT,), (UNDER_WAY,), (PART,), UNDER_WAY, "Some more pages are stored."),
        Transition(
            (PUT,), (UNDER_WAY,), (DONE, PART, SHORT, FAIL), LANDED, "All are stored; or storage refuses or raises."
        ),
        Transition((PUT,), (LANDED,), ("tick",), GONE, "Its pages are protected no longer."),
        Transition(STORING, (UNDER_WAY,), ("detach", "reset"), GONE, "There is no storage; or nothing at all."),
        Transition((QUERY, PUT), (LANDED,), ("detach", "reset"), GONE, "The same."),
        Transition((FETCH,), (LANDED,), ("detach", "reset"), GONE, "The same.", AT_TICKS),
        Transition(_COPIES, (UNDER_WAY, LANDED, FAILED), ("reset",), GONE, "Everything is forgotten."),
        Transition(STORING, (QUEUED,), ("detach",), GONE, "There is no storage.", IN_QUEUES),
        Transition(
            _COPIES, (QUEUED,), ("detach",), UNDER_WAY, "What was before it has ended with storage.", IN_ONE_QUEUE
        ),
        Transition(JOB_KINDS, (QUEUED,), ("reset",), GONE, "Everything is forgotten.", IN_QUEUES),
    ),
    moves=ADVANCES,
)
"""The states of jobs and the legal steps between them."""


def state_of(job: Job) -> str:
    """The state of a job that is listed."""
    if job.landed:
        return FAILED if job.failed else LANDED
    return UNDER_WAY if job.ready else QUEUED


def cause_of(call: PlainCall, job: int) -> str:
    """What a call is to a job, as the table has it: its own advance, by outcome, or the method that was called."""
    match call:
        case work_calls.Advance():
            return f"advance {call.outcome.how}" if call.job == job else "advance"
        case calls.Publish() | calls.End() if call.upto is not None:
            return f"{type(call).__name__.lower()}_upto"
        case work_calls.LoadBack():
            return "load_back" if call.quota is None else "load_back_within"
    return type(call).__name__.lower()


@fact(3)
def jobs_listed(tiers_seen_before: TierSeen, tiers_seen: TierSeen) -> bool:
    """Whether jobs are listed, before the call or after it."""
    return bool(tiers_seen_before.jobs or tiers_seen.jobs)


@fact(3)
def illegal_job_steps(tiers_seen_before: TierSeen, tiers_seen: TierSeen, call: PlainCall) -> Sequence[tuple[int, Step]]:
    """Steps of jobs, by their number, that the table of states hasn't got."""
    was, now = tiers_seen_before.jobs, tiers_seen.jobs
    if was == now and type(call) is not work_calls.Advance:
        return ()
    found = []
    for number in was.keys() | now.keys():
        before = state_of(was[number]) if number in was else NONE
        after = state_of(now[number]) if number in now else GONE
        kind = (was.get(number) or now[number]).kind
        step = Step(kind, before, cause_of(call, number), after)
        if not JOBS.is_legal(step):
            found.append((number, step))
    return found


@rule(
    "TIER-40",
    on=tuple(one for one in ACTIONS if one is not On.OUT_OF_MEMORY),
    needs=("tiers", "steps"),
    source="R-PFT-06, R-LIFE-04, R-LIFE-05; H-06, H-07",
    reference="prefix.life.tick",
    allowed="a step of the table of states of jobs",
    premise="jobs_listed",
)
def a_job_makes_only_legal_steps(illegal_job_steps: Sequence[tuple[int, Step]]) -> bool:
    """A job MUST begin, go on and end by the steps that the table of states of jobs has, each by one of the calls that it names, and else stay as it is."""
    return not illegal_job_steps
