"""The rows of page stores and of sparse host pools."""

from __future__ import annotations

from functools import partial

from kvlitmus.spec.law.actions import Cause, Row, What, joined, row
from kvlitmus.spec.law.on import On
from kvlitmus.spec.ledger.cells import Amount, Cell, Family, Line, Refusal, by, done_to, line, look, no

STORES, SPARSE = Family.STORES, Family.SPARSE

READS: Row = row(Cause.ASKED, What.READ)
WRITES: Row = row(Cause.ASKED, What.PUT)

stored = partial(line, STORES)
"""A row of a page store."""

STORE_LINES: tuple[Line, ...] = (
    stored(
        "store_exists",
        On.STORE_EXISTS,
        On.STORE_LOOKUP,
        On.RAISED,
        amount=Amount.ITEMS,
        least=by("STORE-01"),
        most=by("STORE-01 STORE-11"),
        stays=by("", later="STORE-04 STORE-05"),
        effects=row(Cause.ASKED, What.ASK),
    ),
    *(
        stored(
            call,
            on,
            On.STORE_LOOKUP,
            On.RAISED,
            amount=Amount.ITEMS,
            least=by(f"STORE-02 {least}"),
            most=by(f"STORE-02 {most}"),
            stays=by("", later="STORE-01"),
            effects=READS,
        )
        for call, on, least, most in (
            ("store_get", On.STORE_GET, "STORE-04", "STORE-03 STORE-05 STORE-06 STORE-07 STORE-08 STORE-12 STORE-19"),
            ("store_get_into", On.STORE_GET_INTO, "STORE-13", "STORE-13"),
        )
    ),
    stored(
        "store_put",
        On.STORE_PUT,
        On.STORE_LOOKUP,
        On.RAISED,
        refusal=Refusal.NOT_STORED,
        amount=Amount.ITEMS,
        refused=by("STORE-17", free="full"),
        least=by("STORE-02", later="STORE-01 STORE-04 STORE-09 STORE-13"),
        most=by("STORE-15", later="STORE-05 STORE-06 STORE-18"),
        which=by("", free="full"),
        stays=by("", later="STORE-04 STORE-06"),
        effects=WRITES,
    ),
    stored(
        "store_clear",
        On.STORE_CLEAR,
        least=by("STORE-16", later="STORE-05"),
        most=no("everything goes"),
        stays=no("nothing stays but what is not the store's own, which STORE-15 says of puts"),
        effects=WRITES,
    ),
    *(
        done_to(STORES, call, *on, stays=stays)
        for call, on, stays in (
            ("store_damage", (), by("", later="STORE-07 STORE-08 STORE-19")),
            ("store_reopen", (), by("", later="STORE-04")),
            ("store_crash", (On.STORE_CRASH, On.STORE_LOOKUP), by("STORE-14")),
            ("store_other", (On.STORE_RACE,), by("STORE-14")),
            ("store_rank", (), by("", later="STORE-12")),
        )
    ),
    look(STORES, "store_yard", "", why="it names a folder of the suite's"),
    look(STORES, "store_strays", "STORE-15", On.STORE_PUT),
)

HOST_ALONE = "SPARSE-06 SPARSE-17 POOL-11 POOL-12 POOL-13 POOL-15"
"""What stays on the host: other rows, and what is free."""

PLACES = "SPARSE-65 SPARSE-48"
"""What stays on the device, and what is under way."""

BEHIND = (
    "SPARSE-01 SPARSE-02 SPARSE-09 SPARSE-13 SPARSE-14 SPARSE-27 SPARSE-28 SPARSE-32 SPARSE-38 SPARSE-52 SPARSE-53 "
    "SPARSE-55 SPARSE-59 SPARSE-60"
)
"""By which rules shows later what can't be seen: promises, what waits, what the host has, uses; and slots of buffers."""


def kept(ids: str) -> Cell:
    """What stays: by these rules, and by those in which it shows later."""
    return by(ids, later=BEHIND)


TAKES: Row = row(Cause.WANTED, What.HOST_TAKE)
GIVES: Row = row(Cause.GIVEN, What.HOST_RELEASE, What.RELEASE)

sparse = partial(line, SPARSE, stays=kept(f"SPARSE-06 SPARSE-17 {PLACES}"))
"""A row of a sparse host pool; unless it says otherwise, other rows stay, and places."""

SPARSE_LINES: tuple[Line, ...] = (
    look(SPARSE, "sparse_shape", "", why="it is asked once: rows and widths are the pool's own"),
    sparse(
        "sparse_request",
        On.SPARSE_REQUEST,
        plain=(On.ALLOC,),
        refusal=Refusal.NONE,
        amount=Amount.COUNT,
        at=2,
        refused=by("SPARSE-09 SPARSE-42"),
        least=by("SPARSE-01 SPARSE-02 SPARSE-17"),
        most=by("POOL-03 POOL-04 POOL-06 SPARSE-01 SPARSE-06 SPARSE-14 SPARSE-17", free="which sparse page"),
        stays=kept(f"{HOST_ALONE} {PLACES}"),
        effects=TAKES,
    ),
    sparse(
        "sparse_read",
        On.SPARSE_READ,
        least=by("SPARSE-07"),
        most=by("SPARSE-07"),
        effects={},
    ),
    *(
        sparse(
            call,
            On.SPARSE_FREE,
            least=by("SPARSE-06 SPARSE-17 SPARSE-59 SPARSE-60", later="POOL-04 SPARSE-07 SPARSE-09 SPARSE-13"),
            most=by("SPARSE-06 POOL-12"),
            stays=kept(f"SPARSE-17 POOL-12 POOL-13 {PLACES}"),
            effects=GIVES,
        )
        for call in ("sparse_free", "sparse_abort", "sparse_retract")
    ),
    look(SPARSE, "sparse_available", "SPARSE-06 POOL-13", On.SPARSE_REQUEST, On.SPARSE_FREE, On.REFUSED_SPARSE_REQUEST),
    look(SPARSE, "sparse_view", "SPARSE-17 POOL-12 POOL-13", On.SPARSE_REQUEST),
    look(
        SPARSE,
        "sparse_prefills",
        "",
        why="how much the device has room for is no part of the pool; what it lets in is judged",
    ),
    sparse(
        "sparse_stage",
        On.SPARSE_REQUEST,
        On.SPARSE_STAGE,
        plain=(On.ALLOC,),
        refusal=Refusal.NONE,
        refused=by("SPARSE-09 SPARSE-42"),
        least=by("SPARSE-01 SPARSE-45"),
        most=by("POOL-04 SPARSE-01 SPARSE-06 SPARSE-45", free="which sparse page"),
        stays=kept(f"SPARSE-34 {HOST_ALONE} SPARSE-48"),
        effects=joined(TAKES, row(Cause.ASKED, What.BEGIN_JOB), row(Cause.WANTED, What.TAKE)),
    ),
    sparse(
        "sparse_copied",
        On.SPARSE_COPIED,
        least=by("SPARSE-06 SPARSE-34"),
        most=by("SPARSE-06"),
        stays=kept(f"SPARSE-17 POOL-12 POOL-13 {PLACES}"),
        effects=joined(row(Cause.LANDED, What.END_JOB), row(Cause.NOBODY, What.HOST_RELEASE)),
    ),
    look(SPARSE, "sparse_copying", "SPARSE-34", On.SPARSE_COPIED, On.REFUSED_SPARSE_STAGE),
    sparse(
        "sparse_ready",
        On.SPARSE_READY,
        least=by("SPARSE-32"),
        most=by("SPARSE-30"),
        which=by("SPARSE-31"),
        effects=joined(row(Cause.LANDED, What.END_JOB), row(Cause.WANTED, What.RESTORE)),
    ),
    look(
        SPARSE,
        "sparse_receives",
        "",
        why="how much the device has room for is no part of the pool; what it lets in is judged",
    ),
    sparse(
        "sparse_prealloc",
        On.SPARSE_REQUEST,
        On.SPARSE_PREALLOC,
        plain=(On.ALLOC,),
        refusal=Refusal.NONE,
        refused=by("SPARSE-09 SPARSE-42"),
        least=by("SPARSE-01 SPARSE-45 SPARSE-48"),
        most=by("POOL-04 SPARSE-01 SPARSE-06 SPARSE-12", free="which sparse page"),
        stays=kept(f"SPARSE-48 {HOST_ALONE}"),
        effects=joined(TAKES, row(Cause.ASKED, What.BEGIN_JOB), row(Cause.WANTED, What.TAKE)),
    ),
    look(SPARSE, "sparse_destinations", "SPARSE-47", On.SPARSE_PREALLOC),
    sparse(
        "sparse_transferred",
        On.SPARSE_TRANSFERRED,
        least=by("SPARSE-06 SPARSE-48"),
        most=by("SPARSE-06 SPARSE-48"),
        stays=kept("SPARSE-17 POOL-12 POOL-13 SPARSE-65"),
        effects=joined(row(Cause.LANDED, What.END_JOB), row(Cause.FAILED, What.HOST_RELEASE, What.RELEASE)),
    ),
    look(SPARSE, "sparse_transferring", "SPARSE-48", On.SPARSE_TRANSFERRED, On.SPARSE_PREALLOC, On.SPARSE_FREE),
    look(SPARSE, "sparse_buffer", "SPARSE-25", On.SPARSE_SWAP),
    sparse(
        "sparse_admit",
        On.SPARSE_ADMIT,
        least=by("SPARSE-52", later="SPARSE-01 SPARSE-25 SPARSE-27 SPARSE-38 SPARSE-55"),
        most=by("SPARSE-52", later="SPARSE-28"),
        effects=row(Cause.WANTED, What.TAKE, What.RESTORE),
    ),
    sparse(
        "sparse_swap",
        On.SPARSE_SWAP,
        On.SPARSE_MISUSE,
        amount=Amount.ITEMS,
        at=2,
        least=by("SPARSE-23"),
        most=by("SPARSE-24 SPARSE-63"),
        which=by("SPARSE-27 SPARSE-28"),
        stays=kept(f"SPARSE-06 SPARSE-17 SPARSE-27 {PLACES}"),
        effects=joined(row(Cause.WANTED, What.RESTORE), row(Cause.NEED, What.EVICT), row(Cause.KEY, What.USE)),
    ),
    look(
        SPARSE,
        "sparse_device_available",
        "SPARSE-55 SPARSE-56 SPARSE-60",
        On.SPARSE_GROW,
        On.REFUSED_SPARSE_GROW,
        On.SPARSE_FREE,
    ),
    look(SPARSE, "sparse_device_buffer", "SPARSE-52 SPARSE-53 SPARSE-54 SPARSE-65", On.SPARSE_GROW, On.SPARSE_ADMIT),
    sparse(
        "sparse_grow",
        On.SPARSE_GROW,
        refusal=Refusal.NONE,
        refused=by("SPARSE-57"),
        least=by("SPARSE-52 SPARSE-55 SPARSE-58"),
        most=by("SPARSE-52 SPARSE-55", free="which device slot"),
        stays=kept("SPARSE-06 SPARSE-17 SPARSE-48 SPARSE-53 SPARSE-54 SPARSE-56"),
        effects=row(Cause.WANTED, What.TAKE),
    ),
    sparse(
        "sparse_back_up",
        On.SPARSE_REQUEST,
        On.SPARSE_BACKUP,
        plain=(On.ALLOC,),
        refusal=Refusal.NONE,
        refused=by("SPARSE-09 SPARSE-42 SPARSE-38"),
        least=by("SPARSE-38 SPARSE-44"),
        most=by("SPARSE-38 SPARSE-43 SPARSE-06", free="which sparse page"),
        stays=kept(f"{HOST_ALONE} {PLACES}"),
        effects=TAKES,
    ),
    sparse(
        "sparse_reserve",
        On.SPARSE_RESERVE,
        refusal=Refusal.FALSE,
        amount=Amount.COUNT,
        at=1,
        refused=by("SPARSE-40", free="how many are admitted"),
        least=by("", later="SPARSE-13 SPARSE-42"),
        most=by("SPARSE-39", later="SPARSE-09"),
        effects=row(Cause.ASKED, What.PIN),
    ),
    sparse(
        "sparse_connect",
        On.SPARSE_CONNECT,
        refusal=Refusal.FALSE,
        refused=by("SPARSE-22"),
        least=by("SPARSE-22"),
        most=by("SPARSE-22", later="SPARSE-12"),
        effects={},
    ),
)

LINES: tuple[Line, ...] = (*STORE_LINES, *SPARSE_LINES)
"""All of them."""
