"""The rows of several ranks: what they are asked together, and what happens to one of them alone."""

from __future__ import annotations

from kvlitmus.spec.law.actions import Cause, Row, What, joined, row
from kvlitmus.spec.law.on import On
from kvlitmus.spec.ledger.cells import GRANTED, NO_VICTIMS, Amount, Cell, Family, Line, Refusal, by, line, look, no

RANKS = Family.RANKS

ALIKE = "RANKS-01 RANKS-02 RANKS-03 RANKS-04 RANKS-06 RANKS-07 RANKS-08"
"""That all ranks decide alike, and have the same after it."""

KEPT = f"{ALIKE} POOL-12 RANKS-29 RANKS-30 RANKS-31 RANKS-32"
"""What no call may change, on any rank."""

ORDER = "RANKS-02 RANKS-29 RANKS-30 EVICT-05 EVICT-06"
"""Which pages of the device go."""

ROOM: Row = row(Cause.NEED, What.EVICT, What.RELEASE)
HOST_ROOM: Row = row(Cause.NEED, What.DROP, What.HOST_RELEASE)
NOTED = no("it happens to the rank: what it makes of it is told by the next call")


def asked(
    how: str,
    *own: On,
    least: Cell,
    most: Cell,
    effects: Row,
    refused: Cell = GRANTED,
    which: Cell = NO_VICTIMS,
    refusal: Refusal = Refusal.NEVER,
    amount: Amount = Amount.NONE,
    plain: tuple[On, ...] = (),
) -> Line:
    """A call on all ranks of a tree."""
    return line(
        RANKS,
        "ranks_ask",
        On.RANKS_STEP,
        On.RANKS_ASK,
        *own,
        how=how,
        refused=refused,
        least=least._replace(rules=(*least.rules, *ALIKE.split())),
        most=most._replace(rules=(*most.rules, *ALIKE.split())),
        which=which,
        stays=by(KEPT),
        effects=effects,
        refusal=refusal,
        amount=amount,
        plain=plain,
    )


ASK_LINES: tuple[Line, ...] = (
    asked(
        "match",
        On.RANKS_MATCH,
        plain=(On.MATCH,),
        amount=Amount.ASK,
        least=by("TREE-02"),
        most=by("TREE-02 TREE-10"),
        effects=row(Cause.KEY, What.USE),
    ),
    asked(
        "insert",
        plain=(On.ALLOC, On.REFUSED_ALLOC, On.INSERT),
        refusal=Refusal.NO_DECISION,
        amount=Amount.ASK,
        refused=by(f"POOL-07 BACKUP-01 {ALIKE}"),
        least=by("RANKS-29 POOL-01 TREE-08 BACKUP-01"),
        most=by("POOL-12 RANKS-31 TREE-08 FRAME-01 BACKUP-02"),
        which=by(ORDER),
        effects=joined(
            ROOM,
            HOST_ROOM,
            row(Cause.KEY, What.PLACE, What.TAKE, What.USE),
            row(Cause.POLICY, What.HOST_TAKE, What.BEGIN_JOB),
        ),
    ),
    asked(
        "evict",
        plain=(On.EVICT,),
        amount=Amount.ASK,
        least=by("EVICT-01"),
        most=by("EVICT-06"),
        which=by(ORDER),
        effects=row(Cause.ASKED, What.EVICT, What.RELEASE),
    ),
    asked(
        "acks",
        On.RANKS_ACKS,
        least=by("RANKS-10"),
        most=by("RANKS-10"),
        which=by("RANKS-01 RANKS-02 RANKS-10"),
        effects=row(Cause.LANDED, What.END_JOB, What.BACK, What.RESTORE, What.UNPIN),
    ),
    asked(
        "prefetch",
        On.RANKS_PREFETCH,
        plain=(On.PREFETCH, On.REFUSED_PREFETCH),
        refusal=Refusal.NO_DECISION,
        amount=Amount.ASK,
        refused=by(f"FETCH-03 {ALIKE}", free="all or nothing on ranks"),
        least=by("FETCH-06 RANKS-26 FETCH-03", free="all or nothing on ranks"),
        most=by("FETCH-06 RANKS-18 POOL-12 FETCH-03"),
        which=by("RANKS-02 RANKS-29 RANKS-30 EVICT-05 EVICT-06"),
        effects=joined(
            HOST_ROOM, row(Cause.WANTED, What.HOST_TAKE), row(Cause.ASKED, What.BEGIN_JOB), row(Cause.COPYING, What.PIN)
        ),
    ),
    asked(
        "hit",
        On.RANKS_HIT,
        refusal=Refusal.NO_DECISION,
        refused=by(f"RANKS-19 {ALIKE}"),
        least=by("RANKS-19 RANKS-26"),
        most=by("RANKS-19 RANKS-26"),
        effects=row(Cause.FOUND, What.GO_ON, What.END_JOB, What.HOST_RELEASE, What.UNPIN),
    ),
    asked(
        "poll",
        On.RANKS_POLL,
        refusal=Refusal.NO_DECISION,
        refused=by(f"RANKS-12 {ALIKE}"),
        least=by("RANKS-12 RANKS-14 RANKS-16"),
        most=by("RANKS-12 RANKS-14 RANKS-16"),
        effects=joined(
            row(Cause.COMMIT, What.BACK),
            row(Cause.KEY, What.USE),
            row(Cause.OVER, What.END_JOB, What.HOST_RELEASE, What.UNPIN),
            row(Cause.DUPLICATE, What.HOST_RELEASE),
            row(Cause.MISFIT, What.HOST_RELEASE),
        ),
    ),
    asked(
        "load",
        On.RANKS_LOAD,
        plain=(On.LOAD_BACK, On.REFUSED_LOAD_BACK),
        refusal=Refusal.NO_DECISION,
        amount=Amount.ASK,
        refused=by(f"LOAD-03 {ALIKE}"),
        least=by("LOAD-01"),
        most=by("LOAD-01 POOL-12"),
        which=by(ORDER),
        effects=joined(ROOM, row(Cause.WANTED, What.TAKE, What.BEGIN_JOB), row(Cause.COPYING, What.PIN)),
    ),
    asked(
        "abort",
        least=by("POOL-12", later="FETCH-03"),
        most=by("RANKS-31"),
        effects=row(Cause.NOBODY, What.END_JOB, What.HOST_RELEASE, What.UNPIN),
    ),
    asked(
        "rejoin",
        On.RANKS_LOST,
        least=by("RANKS-03 RANKS-24 RANKS-25"),
        most=by("RANKS-30"),
        effects=row(Cause.RESET, What.EVICT, What.RELEASE, What.DROP, What.HOST_RELEASE, What.END_JOB),
    ),
)

LINES: tuple[Line, ...] = (
    line(
        RANKS,
        "ranks_start",
        On.RANKS_STEP,
        least=by("RANKS-03 POOL-12"),
        most=by("POOL-12 RANKS-31"),
        stays=no("nothing stays"),
        effects=row(Cause.RESET, What.EVICT, What.RELEASE, What.DROP, What.HOST_RELEASE, What.END_JOB),
    ),
    *ASK_LINES,
    *(
        line(
            RANKS,
            "ranks_local",
            On.RANKS_STEP,
            how=how,
            least=NOTED,
            most=by("RANKS-03 RANKS-31"),
            stays=by("RANKS-03 POOL-12 RANKS-30 RANKS-31 RANKS-32"),
            effects={},
        )
        for how in ("wrote", "loaded", "found", "read", "failed", "clock", "pinch", "attach", "die", "restart")
    ),
    look(RANKS, "ranks_view", "RANKS-03 POOL-12", On.RANKS_STEP),
    look(RANKS, "ranks_states", "RANKS-03 RANKS-31", On.RANKS_STEP),
)
"""All of them."""
