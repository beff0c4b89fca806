"""The rows of caches of prefixes: flat ones, and hierarchies."""

from __future__ import annotations

from functools import partial

from kvlitmus.spec.law.on import On
from kvlitmus.spec.ledger.cells import Amount, Cell, Family, Line, Refusal, by, done_to, line, look, no

FLAT, TIERS, PURE = Family.FLAT, Family.TIERS, Family.PURE

POOLED = "POOL-11 POOL-12 POOL-14"
COUNTED = "LOCK-02 LOCK-03 LOCK-04 TREE-13 TREE-14"
OF_DEVICE = f"FRAME-01 FRAME-02 LOCK-01 {COUNTED} {POOLED}"
KEPT = f"{OF_DEVICE} TREE-19"
"""What guards what no call may change on the device: the frame; of locks and uses what they must be; with less the sums."""

ORDER = "EVICT-05 EVICT-06 EVICT-20"
"""Which pages go where room is made on the device."""

HANDED: Cell = by("POOL-01 POOL-03 POOL-04 POOL-05 POOL-06 POOL-12", free="which page")
OPENED: Cell = by("POOL-03 POOL-06 POOL-17 POOL-18", free="which page")
LEFT: Cell = by(f"{KEPT} POOL-08 POOL-20")
ROOM_INSIDE: Cell = by("POOL-20 EVICT-05 EVICT-06 EVICT-20")

ROOM_ENOUGH: Cell = by("REQ-14")


flat = partial(line, FLAT, stays=by(KEPT))
"""A row of a flat cache; unless it says more, what stays is what stays after each call."""
tiered = partial(line, TIERS)
"""A row of a hierarchy."""


def taking(
    call: str, *own: On, least: Cell, most: str = "", refused: Cell = ROOM_ENOUGH, free: str = "which page"
) -> Line:
    """The row of a call by which a request gets pages; ``most``: the rules of that call alone."""
    return flat(
        call,
        *own,
        refusal=Refusal.NONE,
        refused=refused,
        least=least,
        most=by(f"REQ-01 {most} POOL-05 POOL-12 POOL-14", free=free),
        which=by(f"{ORDER} EVICT-23", free="ahead"),
        stays=by(f"POOL-05 REQ-10 TREE-23 {KEPT}"),
    )


FLAT_LINES: tuple[Line, ...] = (
    flat(
        "alloc",
        On.ALLOC,
        refusal=Refusal.NONE,
        amount=Amount.COUNT,
        refused=by("POOL-07"),
        least=by("POOL-01"),
        most=HANDED._replace(rules=(*HANDED.rules, "EVICT-24"), later=("REQ-15",)),
        which=ROOM_INSIDE,
        stays=LEFT._replace(rules=(*LEFT.rules, "POOL-04", "EVICT-24")),
    ),
    *(
        flat(
            call,
            own,
            On.EXTEND_BATCH,
            On.EXTEND_ONE,
            On.REFUSED_EXTEND,
            refusal=Refusal.NONE,
            refused=by("POOL-21"),
            least=by("POOL-18"),
            most=OPENED,
            which=ROOM_INSIDE,
            stays=LEFT,
        )
        for call, own in (("alloc_extend", On.ALLOC_EXTEND), ("alloc_decode", On.ALLOC_DECODE))
    ),
    flat(
        "free",
        On.FREE,
        amount=Amount.ITEMS,
        least=by("POOL-09 POOL-10 POOL-12 POOL-14 TREE-19", later="REQ-15 EVICT-20", free="reclaimed"),
        most=by("POOL-09 POOL-10 POOL-11 POOL-12"),
    ),
    flat(
        "free",
        On.GROUP_OPEN,
        On.IN_GROUP,
        how="in a group",
        least=no("nothing is free before the group ends"),
        most=by("POOL-19"),
    ),
    flat(
        "free_group_begin",
        On.GROUP_OPEN,
        least=no("it takes nothing: what is freed from then on waits"),
    ),
    flat(
        "free_group_end",
        On.FREE,
        On.GROUP_END,
        On.GROUP_CLOSED,
        least=by("POOL-09 POOL-10 POOL-12", later="REQ-15 EVICT-20"),
        most=by("POOL-09 POOL-10 POOL-11 POOL-12"),
    ),
    flat(
        "reset",
        On.RESET,
        least=by("POOL-16 POOL-22 POOL-14 TREE-19", later="TREE-02"),
        most=by("POOL-11 POOL-12"),
        stays=no("nothing stays"),
    ),
    flat(
        "flush",
        On.FLUSH,
        refusal=Refusal.FALSE,
        refused=by("EVICT-26", free="flushes an idle cache"),
        least=by("EVICT-25 POOL-12 POOL-14 TREE-19", later="TREE-02"),
        most=by("EVICT-25 LOCK-01 POOL-12 POOL-14 TREE-19", later="TREE-20"),
        which=no("all go that nobody protects"),
        stays=by(f"EVICT-25 {KEPT}"),
    ),
    flat(
        "match",
        On.MATCH,
        amount=Amount.KEY,
        least=by("TREE-02 TREE-20", free="expiry"),
        most=by("TREE-01 TREE-02 TREE-10", free="inside a page"),
        stays=by(f"TREE-04 TREE-22 {KEPT}", free="expiry"),
    ),
    flat(
        "insert",
        On.INSERT,
        amount=Amount.KEY,
        least=by("TREE-08 TREE-09 TREE-11 TREE-19"),
        most=by("TREE-08 TREE-09 TREE-11 TREE-12"),
        stays=by(f"TREE-08 TREE-12 TREE-22 {KEPT}"),
    ),
    flat(
        "lock",
        On.LOCK,
        least=by("LOCK-04 TREE-24"),
        most=by("LOCK-04 TREE-24"),
        stays=by(f"TREE-04 LOCK-07 TREE-22 {KEPT}"),
    ),
    flat(
        "unlock",
        On.UNLOCK,
        least=by("LOCK-04 LOCK-06 TREE-24", later="EVICT-01 EVICT-21 REQ-15", free="late unlock"),
        most=by("LOCK-04 TREE-24 LOCK-01", later="TREE-20 EVICT-03"),
        stays=by(f"TREE-04 LOCK-07 TREE-22 {KEPT}"),
    ),
    flat(
        "evict",
        On.EVICT,
        amount=Amount.COUNT,
        least=by("EVICT-01 EVICT-21"),
        most=by("EVICT-02 EVICT-06 EVICT-21"),
        which=by(f"{ORDER} EVICT-03", free="which of equals, own order, batches"),
        stays=by(f"EVICT-02 EVICT-03 EVICT-04 {KEPT}"),
    ),
    flat(
        "take_back",
        On.TAKE_BACK,
        amount=Amount.COUNT,
        at=1,
        least=by("REQ-16 REQ-17 POOL-12", later="POOL-17 REQ-04 TREE-08"),
        most=by("REQ-17 POOL-11 POOL-12", later="POOL-17"),
    ),
    flat(
        "retract",
        On.RETRACT,
        refusal=Refusal.FALSE,
        refused=by("REQ-19", free="room on the host, waits for a load"),
        least=by("REQ-07 POOL-12 POOL-14 TREE-19", later="REQ-01 REQ-02 REQ-15 EVICT-20"),
        most=by("REQ-09 POOL-12"),
        stays=by(f"REQ-09 {KEPT}"),
    ),
    flat("discard", On.DISCARD, least=by("", later="REQ-19"), most=by(POOLED)),
    taking(
        "begin",
        On.BEGIN,
        refused=by("REQ-14 REQ-15", free="room at begin, watermark, spare pages"),
        least=by("REQ-01 TREE-02 TREE-20"),
        most="TREE-01 TREE-02 TREE-10",
        free="which page, spare pages, inside a page",
    ),
    taking("fork", On.FORK, least=by("REQ-01 REQ-02 REQ-18"), most="REQ-18 POOL-15"),
    taking(
        "resume",
        On.RESUME,
        least=by("REQ-01 REQ-02", later="REQ-19"),
        most="REQ-03 POOL-15",
        free="which page, shares what is cached",
    ),
    taking(
        "grow",
        On.GROW,
        refused=by("REQ-14", free="room at begin, spare pages"),
        least=by("REQ-01 POOL-17"),
        free="which page, spare pages",
    ),
    *(
        flat(
            call,
            On.PUBLISH,
            own,
            least=by(least, free="admission"),
            most=by(f"{most} REQ-01 POOL-12"),
            stays=by(f"REQ-11 {KEPT}"),
        )
        for call, own, least, most in (
            ("publish", On.PUBLISH_ALL, "REQ-04 REQ-11", "REQ-04"),
            ("publish_upto", On.PUBLISH_UPTO, "REQ-04 REQ-11", "REQ-04 REQ-13"),
        )
    ),
    *(
        flat(
            call,
            On.END,
            *own,
            how=how,
            least=by(f"REQ-07 {least} POOL-12 POOL-14 TREE-19", later="REQ-15 EVICT-20 EVICT-21", free=less),
            most=by(most, free=more),
            stays=by(f"{most} {KEPT}"),
        )
        for call, how, own, least, most, less, more in (
            ("end", "kept", (On.FINISH,), "TREE-08", "TREE-08 POOL-12", "admission", ""),
            ("end", "aborted", (On.ABORT,), "REQ-09", "REQ-09 POOL-12", "", "aborted"),
            ("end_upto", "", (On.FINISH, On.END_UPTO), "TREE-08", "TREE-08 REQ-13", "admission", ""),
        )
    ),
    look(FLAT, "available", "POOL-13 POOL-14 TREE-19"),
    look(FLAT, "sizes", "LOCK-02 LOCK-06 POOL-14 TREE-24"),
    look(FLAT, "view", "POOL-11 POOL-12 TREE-05 TREE-06 TREE-07"),
    look(FLAT, "events", "EVENT-01 EVENT-02 EVENT-04 EVENT-05 EVENT-06 EVENT-07 EVENT-10", On.FLAT_CALL),
    look(FLAT, "raw_array", "", why="it makes what callers pass; the cache isn't asked"),
    *(
        flat(
            call,
            *own,
            least=by(f"{least} MISUSE-12"),
            most=by(f"{least} MISUSE-12"),
            stays=by("MISUSE-12"),
            effects={},
        )
        for call, own, least in (
            ("raw_match", (On.OTHER_WIDTH, On.BEYOND), "MISUSE-11 MISUSE-13"),
            ("raw_insert", (), "PORT-04"),
            ("raw_free", (), "PORT-04"),
            ("raw_begin", (), "PORT-04"),
        )
    ),
)

HELD = f"FRAME-03 FRAME-04 POOL-12 TREE-13 TREE-14 {OF_DEVICE}"
"""What guards what no call may change on the host, and on the device."""

ALSO = "FRAME-05 FRAME-06 FRAME-07 TIER-40"
"""What guards pins, jobs and storage."""

BELOW: Cell = by(f"{HELD} {ALSO}")
WAITS = no("it is told how far the work has come; the cache decides when it takes note")
FETCHED = "FETCH-12 FETCH-14"

TIER_LINES: tuple[Line, ...] = (
    tiered(
        "insert",
        On.INSERT,
        how="above a host",
        least=by("TREE-08 TREE-09 TREE-11 BACKUP-01", free="own filter"),
        most=by("TREE-08 TREE-11 BACKUP-02"),
        which=by("EVICT-05 EVICT-06"),
        stays=by(f"{HELD} {ALSO} TREE-08"),
    ),
    tiered(
        "match",
        On.MATCH,
        how="above a host",
        least=by("TREE-02 TIER-10"),
        most=by("TREE-02 TIER-10"),
        stays=by(f"TREE-04 TIER-33 FETCH-19 {HELD} {ALSO}"),
    ),
    tiered(
        "evict",
        On.EVICT,
        how="above a host",
        amount=Amount.COUNT,
        least=by("EVICT-01"),
        most=by("EVICT-02 EVICT-06"),
        which=by(ORDER, free="which of equals, own order, batches"),
        stays=by(f"EVICT-03 EVICT-04 TIER-13 {HELD} {ALSO}"),
    ),
    tiered(
        "evict_host",
        On.EVICT_HOST,
        amount=Amount.COUNT,
        least=by("TIER-15"),
        most=by("EVICT-03 TIER-15 TIER-17 EVICT-06"),
        which=by("EVICT-03 EVICT-05 EVICT-06"),
        stays=by(f"EVICT-03 EVICT-04 TIER-11 FETCH-19 {HELD} {ALSO}"),
    ),
    tiered(
        "load_back",
        On.LOAD_BACK,
        refusal=Refusal.NO_SLOTS,
        amount=Amount.KEY,
        refused=by("LOAD-03", free="worth a load"),
        least=by("LOAD-01 LOAD-11"),
        most=by("LOAD-02 FRAME-01 FRAME-02"),
        which=by("EVICT-05 EVICT-06", later="EVICT-20"),
        stays=by(f"LOAD-04 LOAD-05 {HELD} {ALSO}"),
    ),
    tiered(
        "load_back_within",
        On.LOAD_BACK,
        On.LIMITED_LOAD_BACK,
        refusal=Refusal.NO_SLOTS,
        refused=by("LOAD-03", free="worth a load"),
        least=by("LOAD-01 LOAD-11"),
        most=by("LOAD-02 LOAD-07"),
        which=by("EVICT-05 EVICT-06", later="EVICT-20"),
        stays=by(f"LOAD-04 LOAD-05 {HELD} {ALSO}"),
    ),
    *(
        tiered("advance", *own, how=how, least=least, most=most, stays=by(f"{stays} {HELD} {ALSO}"))
        for how, own, least, most, stays in (
            (
                "a copy has landed",
                (On.COPIED, On.LAYERED),
                by("TIER-40 LOAD-06 TIER-08"),
                by("LOAD-06 TIER-40"),
                f"TIER-33 FETCH-19 {FETCHED}",
            ),
            ("a copy has failed", (On.FAILED_COPY, On.LAYERED), by("LOAD-10 TIER-40"), by("LOAD-06 TIER-40"), FETCHED),
            (
                "a query",
                (On.QUERY,),
                by("FETCH-08 TIER-40", later="FETCH-09 FETCH-16 FETCH-20"),
                by("FETCH-08 FETCH-09"),
                FETCHED,
            ),
            (
                "a fetch",
                (On.FETCH,),
                by("FETCH-10 FETCH-20 TIER-40", later="FETCH-11 FETCH-16"),
                by("FETCH-09 FETCH-10"),
                FETCHED,
            ),
            (
                "a put",
                (On.PUT,),
                by("BACKUP-07 BACKUP-08 TIER-40", later="BACKUP-09"),
                by("BACKUP-06 BACKUP-07"),
                FETCHED,
            ),
            ("for nobody", (On.ZOMBIE,), WAITS, by("FETCH-12"), FETCHED),
        )
    ),
    tiered(
        "tick",
        On.TICK,
        On.PREFETCH_TICK,
        On.DETACHED,
        On.COMMIT,
        On.QUIET_TICK,
        On.SETTLED,
        least=by(
            "BACKUP-01 BACKUP-11 LIFE-05 LIFE-06 LIFE-07 LIFE-08 LIFE-09 LIFE-16 FETCH-13",
            later="TIER-17 TIER-33 FETCH-11",
            free="when noted",
        ),
        most=by("BACKUP-02 BACKUP-03 FETCH-12"),
        which=by("EVICT-05 EVICT-06"),
        stays=by(f"LOAD-09 {FETCHED} {HELD} {ALSO}"),
    ),
    tiered(
        "prefetch",
        On.PREFETCH,
        On.GATED_PREFETCH,
        refusal=Refusal.NOTHING_BEGUN,
        amount=Amount.KEY,
        at=1,
        refused=by("FETCH-03"),
        least=by("FETCH-03 FETCH-04"),
        most=by("FETCH-01 FETCH-03 FETCH-04 FETCH-05 FETCH-06"),
        which=by("EVICT-05 EVICT-06"),
        stays=by(f"FETCH-02 FETCH-04 {HELD} {ALSO}"),
    ),
    tiered("raw_prefetch", least=by("MISUSE-12"), most=by("MISUSE-12"), stays=by("MISUSE-12"), effects={}),
    tiered(
        "poll",
        On.POLL,
        refusal=Refusal.FALSE,
        refused=by("FETCH-11"),
        least=by("FETCH-13"),
        most=by("FETCH-11 FETCH-12"),
        stays=by(f"FETCH-14 FETCH-17 {HELD} {ALSO}"),
    ),
    tiered(
        "abandon",
        On.ABANDON,
        least=by("TIER-40 FRAME-05 FETCH-07", later="LIFE-08 LIFE-16 FETCH-11"),
        most=by("FETCH-12 FETCH-14 FETCH-17"),
        stays=by(f"{FETCHED} FETCH-17 {HELD} {ALSO}"),
    ),
    tiered(
        "attach",
        On.ATTACH,
        refusal=Refusal.FALSE,
        refused=by("LIFE-03"),
        least=by("LIFE-03"),
        most=by("LIFE-17"),
        stays=by(f"LIFE-02 LIFE-04 {HELD} {ALSO}"),
    ),
    tiered(
        "detach",
        On.DETACH,
        refusal=Refusal.FALSE,
        refused=by("LIFE-03"),
        least=by("LIFE-03 LIFE-17", later="LIFE-05 LIFE-09 LIFE-16"),
        most=by("LIFE-02 LIFE-04"),
        stays=by(f"LIFE-02 LIFE-04 {HELD} {ALSO}"),
    ),
    tiered(
        "reset",
        On.RESET,
        how="above a host",
        least=by("POOL-16 LIFE-01 TIER-32"),
        most=by("LIFE-02 FRAME-07"),
        stays=by(f"LIFE-02 LIFE-01 POOL-16 {HELD} {ALSO}"),
    ),
    *(
        done_to(TIERS, call, on, stays=BELOW)
        for call, on in (("fail_host_alloc", On.FAULT), ("fail_copy", On.FAULT), ("set_clock", On.CLOCK))
    ),
    tiered(
        "fail_memory",
        On.FAULT,
        On.OUT_OF_MEMORY,
        least=no("the call that finds no memory may end without having done anything"),
        most=by("LOAD-04"),
        which=by("EVICT-05 EVICT-06", later="EVICT-20"),
        stays=by(f"LOAD-04 {HELD} {ALSO}"),
    ),
    done_to(TIERS, "poke", stays=by("TIER-08")),
    look(TIERS, "peek", "TIER-08"),
    look(TIERS, "failing", "", why="it says which faults the suite has asked for are still to come"),
    look(TIERS, "host_available", "TIER-09 TIER-32 TIER-33", On.RESET, On.MATCH),
    look(TIERS, "layers", "LOAD-06", On.LAYERED),
    look(TIERS, "layers_ready", "LOAD-06", On.LAYERED),
    look(TIERS, "tiers", "POOL-12 TREE-06 TIER-04 TREE-05"),
    look(TIERS, "jobs", "TIER-40 BACKUP-03", On.TICK),
    look(TIERS, "occupied", "FETCH-07"),
    tiered("loaded", On.LOADED, least=by("FETCH-16"), most=by("FETCH-16 LIFE-15"), stays=by(f"{HELD} {ALSO}")),
)

PURE_LINES: tuple[Line, ...] = (
    line(
        PURE,
        "page_hashes",
        On.PAGE_HASHES,
        On.HASH_REFUSAL,
        On.HASH_PIECES,
        On.HASH_PAIR,
        On.HASH_NAMESPACES,
        On.HASHED,
        On.RAISED,
        refused=by("HASH-08"),
        least=by("HASH-02"),
        most=by("HASH-02"),
        stays=no("it is worked out from its arguments, and no cache is there"),
        effects={},
    ),
    line(
        PURE,
        "plan_prefetch",
        On.PLAN_PREFETCH,
        refusal=Refusal.NOTHING_BEGUN,
        refused=by("PREFETCH-04 PREFETCH-07 PREFETCH-20"),
        least=by("PREFETCH-07 PREFETCH-08 PREFETCH-10 PREFETCH-11"),
        most=by("PREFETCH-05 PREFETCH-08 PREFETCH-11 PREFETCH-14"),
        which=no("it asks the host to make room: which pages go is the host's"),
        stays=by("PREFETCH-01 PREFETCH-06 PREFETCH-09 PREFETCH-15 PREFETCH-16 PREFETCH-18"),
        effects={},
    ),
)

LINES: tuple[Line, ...] = (*FLAT_LINES, *TIER_LINES, *PURE_LINES)
"""All of them."""
