"""The rows of caches of components, and of those that serve requests on them."""

from __future__ import annotations

from functools import partial

from kvlitmus.spec.law.actions import TOLD, Cause, Row, What, joined, row
from kvlitmus.spec.law.on import On
from kvlitmus.spec.ledger.cells import Amount, Family, Line, Refusal, by, line, look, no

COMPONENTS, REQUESTS = Family.COMPONENTS, Family.REQUESTS

KEPT = "POOL-10 COMP-15 COMP-16 POOL-12 EVENT-02"
"""What stays on each tier: entries, places, and what is free."""

BESIDE = "COMP-53 COMP-54 LOCK-01"
"""What stays beside them: backups that nobody asked for, and what is protected."""

ALL = f"{KEPT} {BESIDE}"
BEHIND = "COMP-12 LOCK-01 COMP-55 COMP-58 COMP-59 COMP-20 COMP-63"
"""By which rules shows later what can't be seen: protection, uses, whether storage is there."""

ORDER = "LOCK-01 COMP-63"

ROOM: Row = row(Cause.NEED, What.EVICT, What.DEMOTE, What.RELEASE)
HOST_ROOM: Row = row(Cause.NEED, What.DROP, What.HOST_RELEASE)
SPILLS: Row = joined(HOST_ROOM, row(Cause.SPILL, What.BACK, What.HOST_TAKE))
BACKS: Row = joined(HOST_ROOM, row(Cause.POLICY, What.BACK, What.HOST_TAKE, What.BEGIN_JOB, What.PIN))
USES: Row = row(Cause.KEY, What.USE, What.COUNT)
RETURNS: Row = row(Cause.OVER, What.RELEASE, What.UNLOCK, What.END_JOB)

joint = partial(line, COMPONENTS, stays=by(ALL, later=BEHIND))
"""A row of a call on components; unless it says more, what stays is what stays after each."""

COMPONENT_LINES: tuple[Line, ...] = (
    joint(
        "component_match",
        On.COMPONENT_MATCH,
        amount=Amount.KEY,
        plain=(On.MATCH, On.BEYOND),
        least=by("TREE-02 EVENT-09"),
        most=by("TREE-02 TREE-03 EVENT-08 MISUSE-13"),
        effects=joined(USES, BACKS),
    ),
    joint(
        "component_reset",
        On.COMPONENT_RESET,
        plain=(On.RESET,),
        least=by("POOL-22 COMP-16 POOL-12 EVENT-02", later="TREE-02"),
        most=by("POOL-12"),
        stays=no("nothing stays"),
        effects=joined(
            TOLD,
            row(
                Cause.RESET,
                What.EVICT,
                What.RELEASE,
                What.DROP,
                What.HOST_RELEASE,
                What.UNLOCK,
                What.UNPIN,
                What.END_JOB,
            ),
        ),
    ),
    joint(
        "component_alloc",
        On.COMPONENT_ALLOC,
        refusal=Refusal.NONE,
        amount=Amount.COUNTS,
        refused=by("POOL-07"),
        least=by("POOL-01"),
        most=by("POOL-01 POOL-04 EVICT-24 POOL-12", later="POOL-07", free="which place"),
        plain=(
            On.ALLOC,
            On.REFUSED_ALLOC,
        ),
        effects=row(Cause.WANTED, What.TAKE),
    ),
    joint(
        "component_free",
        On.COMPONENT_FREE,
        amount=Amount.COUNTS,
        least=by("POOL-10 POOL-12", later="POOL-07"),
        most=by("POOL-10 POOL-12"),
        effects=row(Cause.GIVEN, What.RELEASE),
    ),
    joint(
        "component_insert",
        On.COMPONENT_INSERT,
        amount=Amount.COUNTS,
        at=1,
        plain=(On.INSERT,),
        least=by("TREE-08 TREE-09 TREE-11 COMP-55 POOL-12", later="TREE-02"),
        most=by("TREE-08 TREE-09 TREE-11 TREE-22 COMP-15 COMP-53"),
        effects=joined(USES, BACKS, TOLD, row(Cause.KEY, What.PLACE), row(Cause.DUPLICATE, What.RELEASE, What.MOVE)),
    ),
    joint(
        "component_lock",
        On.COMPONENT_LOCK,
        least=by("COMP-10"),
        most=by("COMP-10"),
        effects=joined(BACKS, row(Cause.ASKED, What.LOCK), row(Cause.KEY, What.USE)),
    ),
    joint(
        "component_unlock",
        On.COMPONENT_UNLOCK,
        least=by("", later="COMP-12"),
        most=by("", later="LOCK-01"),
        effects=joined(row(Cause.GIVEN, What.UNLOCK), row(Cause.KEY, What.USE)),
    ),
    joint(
        "component_evict",
        On.COMPONENT_EVICT,
        amount=Amount.COUNTS,
        plain=(On.EVICT,),
        least=by("COMP-12"),
        most=by("COMP-13 EVICT-02"),
        which=by(ORDER, free="own order of components"),
        stays=by(f"{ALL} TREE-05 COMP-19 COMP-56", later=BEHIND),
        effects=joined(SPILLS, TOLD, row(Cause.ASKED, What.EVICT, What.DEMOTE, What.RELEASE)),
    ),
    joint(
        "component_prefetch",
        On.COMPONENT_PREFETCH,
        refusal=Refusal.NOTHING_BEGUN,
        amount=Amount.KEY,
        at=1,
        refused=by("COMP-22 COMP-23"),
        least=by("COMP-21 COMP-22 COMP-23"),
        most=by("COMP-20 COMP-21 COMP-22", free="which place"),
        which=by(f"COMP-13 {ORDER}", free="own order of components"),
        stays=by(f"{ALL} POOL-04 COMP-20", later=BEHIND),
        plain=(
            On.EVICT,
            On.ALLOC,
        ),
        effects=joined(
            SPILLS,
            ROOM,
            TOLD,
            row(Cause.WANTED, What.TAKE),
            row(Cause.ASKED, What.BEGIN_JOB),
            row(Cause.COPYING, What.LOCK),
        ),
    ),
    joint(
        "component_prefetch_found",
        On.COMPONENT_FOUND,
        amount=Amount.PLACES,
        at=1,
        least=by("COMP-26"),
        most=by("COMP-26 COMP-27"),
        stays=by(f"{ALL} COMP-29", later=BEHIND),
        effects=row(Cause.FOUND, What.GO_ON, What.RELEASE),
    ),
    joint(
        "component_prefetch_settled",
        On.COMPONENT_SETTLED,
        least=by("COMP-29 POOL-12"),
        most=by("COMP-29"),
        effects=RETURNS,
    ),
    joint(
        "component_prefetch_commit",
        On.COMPONENT_COMMIT,
        amount=Amount.PLACES,
        at=1,
        least=by("COMP-28 COMP-29", free="all or nothing"),
        most=by("COMP-28 COMP-29 COMP-15"),
        stays=by(f"{ALL} COMP-29", later=BEHIND),
        effects=joined(RETURNS, TOLD, USES, row(Cause.COMMIT, What.PLACE)),
    ),
    joint(
        "component_prefetch_abort",
        On.COMPONENT_ABORT,
        least=by("COMP-29 POOL-12"),
        most=by("COMP-29"),
        stays=by(f"{ALL} COMP-29", later=BEHIND),
        effects=RETURNS,
    ),
    joint(
        "component_back_up",
        On.COMPONENT_BACK_UP,
        refusal=Refusal.NOTHING_BEGUN,
        refused=by("COMP-36"),
        least=by("COMP-32"),
        most=by("COMP-32 POOL-04 EVICT-24", free="which place"),
        which=by(f"COMP-13 {ORDER}", free="own order of components"),
        stays=by(f"{ALL} TREE-05 COMP-19", later=BEHIND),
        plain=(
            On.EVICT,
            On.ALLOC,
        ),
        effects=joined(
            HOST_ROOM,
            TOLD,
            row(Cause.WANTED, What.HOST_TAKE),
            row(Cause.ASKED, What.BEGIN_JOB, What.BACK),
            row(Cause.COPYING, What.PIN, What.LOCK),
        ),
    ),
    joint(
        "component_load",
        On.COMPONENT_LOAD,
        refusal=Refusal.NOTHING_BEGUN,
        amount=Amount.KEY,
        at=1,
        refused=by("COMP-36"),
        least=by("COMP-32 LOAD-11"),
        most=by("COMP-32 LOAD-11 POOL-04 EVICT-24", free="which place"),
        which=by(f"COMP-13 {ORDER}", free="own order of components"),
        stays=by(f"{ALL} COMP-56", later=BEHIND),
        plain=(
            On.EVICT,
            On.ALLOC,
            On.LOAD_BACK,
        ),
        effects=joined(
            SPILLS,
            ROOM,
            TOLD,
            row(Cause.WANTED, What.TAKE, What.RESTORE),
            row(Cause.ASKED, What.BEGIN_JOB),
            row(Cause.COPYING, What.PIN, What.LOCK),
        ),
    ),
    joint(
        "component_copied",
        On.COMPONENT_COPIED,
        least=by("COMP-29 COMP-15 POOL-12", later="TREE-02"),
        most=by("COMP-29 COMP-15"),
        effects=joined(
            TOLD,
            RETURNS,
            row(Cause.LANDED, What.RESTORE, What.BACK, What.UNPIN),
            row(Cause.FAILED, What.HOST_RELEASE),
            row(Cause.DUPLICATE, What.HOST_RELEASE),
        ),
    ),
    joint(
        "component_evict_host",
        On.COMPONENT_EVICT_HOST,
        amount=Amount.COUNTS,
        plain=(On.EVICT,),
        least=by("COMP-12"),
        most=by("COMP-13 EVICT-02"),
        which=by(ORDER, free="own order of components"),
        stays=by(f"{ALL} TREE-05 COMP-19", later=BEHIND),
        effects=joined(TOLD, row(Cause.ASKED, What.DROP, What.HOST_RELEASE)),
    ),
    joint(
        "component_attach",
        On.COMPONENT_ATTACH,
        least=by("", later="COMP-59 COMP-22"),
        most=by("", later="COMP-20"),
        effects={},
    ),
    joint(
        "component_detach",
        On.COMPONENT_DETACH,
        least=by("COMP-29", later="COMP-58 COMP-20"),
        most=by("COMP-29 LOCK-01"),
        effects=RETURNS,
    ),
    joint(
        "component_write",
        On.COMPONENT_WRITE,
        refusal=Refusal.NOTHING_BEGUN,
        refused=by("COMP-59"),
        least=by("COMP-32"),
        most=by("COMP-32 COMP-58"),
        effects=joined(row(Cause.ASKED, What.BEGIN_JOB), row(Cause.COPYING, What.PIN)),
    ),
    joint(
        "component_written",
        On.COMPONENT_WRITTEN,
        least=by("", later="COMP-12"),
        most=by("LOCK-01"),
        effects=row(Cause.LANDED, What.END_JOB, What.UNPIN),
    ),
    look(COMPONENTS, "component_begun", "COMP-53 COMP-54 COMP-55", On.COMPONENT_INSERT),
    look(COMPONENTS, "component_available", "POOL-10 POOL-13", On.COMPONENT_ALLOC),
    look(COMPONENTS, "component_sizes", "LOCK-02 LOCK-06 POOL-14 TREE-24", On.COMPONENT_LOCK),
    look(COMPONENTS, "component_available_host", "POOL-10 POOL-13", On.COMPONENT_BACK_UP),
    look(COMPONENTS, "component_events", "EVENT-01 EVENT-04 EVENT-02", On.COMPONENT_INSERT),
    look(COMPONENTS, "component_free_places", "POOL-12", On.COMPONENT_ALLOC),
    look(COMPONENTS, "component_entries", "COMP-15 COMP-16 TREE-05 COMP-19", On.COMPONENT_INSERT),
    look(COMPONENTS, "component_free_host", "POOL-12", On.COMPONENT_BACK_UP),
    look(COMPONENTS, "component_host_entries", "COMP-15 COMP-16 TREE-05 COMP-19", On.COMPONENT_COPIED),
)

SERVED = "COMP-15 COMP-16 POOL-12 EVENT-02"
SERVES: Row = joined(
    ROOM,
    USES,
    TOLD,
    row(Cause.WANTED, What.TAKE),
    row(Cause.KEY, What.PLACE),
    row(Cause.ASKED, What.LOCK),
    row(Cause.NOBODY, What.UNLOCK),
)

served = partial(line, REQUESTS)
"""A row of a call of requests."""

REQUEST_LINES: tuple[Line, ...] = (
    served(
        "component_match",
        On.COMPONENT_MATCH,
        how="of requests",
        amount=Amount.KEY,
        plain=(On.MATCH, On.BEYOND),
        least=by("TREE-02 EVENT-09"),
        most=by("TREE-02 TREE-03 EVENT-08 MISUSE-13"),
        stays=by(SERVED, later="LOCK-01 COMP-63 CREQ-03"),
        effects=USES,
    ),
    served(
        "component_reset",
        On.COMPONENT_RESET,
        how="of requests",
        least=by("COMP-16 POOL-12 EVENT-02", later="TREE-02 TREE-03 POOL-04"),
        most=by("POOL-12"),
        stays=no("nothing stays"),
        effects=joined(TOLD, row(Cause.RESET, What.EVICT, What.RELEASE, What.UNLOCK)),
    ),
    served(
        "component_start",
        On.COMPONENT_START,
        refusal=Refusal.NONE,
        amount=Amount.COUNT,
        at=1,
        refused=by("CREQ-03"),
        plain=(On.MATCH, On.ALLOC, On.BEGIN),
        least=by("CREQ-01 TREE-02 CREQ-06"),
        most=by("CREQ-01 POOL-04 TREE-02 TREE-03 POOL-12", free="which place"),
        which=by(ORDER, free="own order of components"),
        stays=by(f"{SERVED} LOCK-01 TREE-05 COMP-19", later="LOCK-01 COMP-63 CREQ-03"),
        effects=SERVES,
    ),
    served(
        "component_grow",
        On.COMPONENT_GROW,
        refusal=Refusal.NOTHING_BEGUN,
        amount=Amount.COUNT,
        at=1,
        refused=by("CREQ-03"),
        plain=(On.ALLOC, On.GROW),
        least=by("CREQ-01 CREQ-06"),
        most=by("CREQ-01 POOL-04 POOL-12", free="which place"),
        which=by(ORDER, free="own order of components"),
        stays=by(f"{SERVED} CREQ-05 LOCK-01 TREE-05 COMP-19", later="LOCK-01 COMP-63 CREQ-03"),
        effects=joined(SERVES, row(Cause.NOBODY, What.RELEASE)),
    ),
    served(
        "component_finish",
        On.COMPONENT_FINISH,
        least=by("POOL-12", later="CREQ-03"),
        most=by("COMP-16 POOL-12"),
        stays=by(SERVED, later="LOCK-01 COMP-63 CREQ-03"),
        effects=joined(TOLD, row(Cause.OVER, What.RELEASE, What.UNLOCK), row(Cause.KEY, What.USE)),
    ),
)

LINES: tuple[Line, ...] = (*COMPONENT_LINES, *REQUEST_LINES)
"""All of them."""
