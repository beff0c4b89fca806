"""Backup: copies of cached KV further down, from the device to the host and from the host to storage.

When a page becomes due depends on the **write policy**: at its insertion (write-through), at its second
use (write-through-selective), or when it is evicted (write-back).  A backup is work in flight: the
host memory is the page's at once, the contents are right when the copy has **landed**, and the page is
protected on the device until the cache has taken note (**ack**).  A backup whose copy fails, where it is to begin or
under way, leaves the page as it was before: without a host copy, unprotected, due again at its next use.  Where
something depends on the host copy (a copy below it, a prefetch), the cache has to copy it again instead.

With storage, a page whose backup was acknowledged is then **put** there, under a name.  The name is all
that a reader has: one prefix must have one name, whoever computes it, and one name one prefix.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec import tier as _tier  # noqa: F401 - its facts
from kvlitmus.spec.facts import define
from kvlitmus.spec.rule import Kind, Strength, rule

define(
    0,
    {
        "many_names": "prefixes that storage was asked for or given under more than one name",
        "many_prefixes": "names under which storage was asked for or given more than one prefix",
        "put_wrong": "pages put into storage whose contents aren't the KV of one page of one prefix",
        "put_after_failure": "pages that a put wrote after a page that storage refused",
        "put_missing": "pages of a put that ended well and that storage never got",
    },
)
define(
    3,
    {
        "due_missed": "pages that were due for backup, with room for all of them, and are neither backed nor under way",
        "backed_early": "pages that a backup was begun for before the write policy says so",
        "failed_hosted": "pages of backups that failed and ended, with a host copy that no other backup is making",
        "acked_unlanded": "backups and loads that ended before their copy had landed, or before an earlier one",
        "unstored": "pages with an acknowledged host copy that storage, attached all the time and willing, doesn't have",
    },
)

INSERTS = ("insert", "publish", "finish")
"""The calls that insert."""


@rule(
    "BACKUP-01", kind=Kind.STEP, on=INSERTS, needs=("tiers", "steps"), source="R-WB-01, R-WB-03", reference="backup.due"
)
def what_is_due_is_backed_up(due_missed: Sequence[object]) -> bool:
    """An insertion MUST begin the backup of every page of the path that the write policy makes due, if the host has room for all of them."""
    return not due_missed


@rule(
    "BACKUP-02", kind=Kind.STEP, on=INSERTS, needs=("tiers", "steps"), source="R-WB-01, R-WB-02", reference="backup.due"
)
def nothing_is_backed_up_before_it_is_due(backed_early: Sequence[object]) -> bool:
    """An insertion MUST NOT begin the backup of a page that isn't due: under write-back none, under write-through-selective none at its first use."""
    return not backed_early


@rule(
    "BACKUP-03",
    kind=Kind.STATE,
    needs=("tiers", "steps"),
    source="R-WB-04, R-WB-07, R-LB-05",
    reference="life.tick",
)
def an_ack_waits_for_its_copy(acked_unlanded: Sequence[object]) -> bool:
    """A backup or a load MUST end only after its copy has landed, and after those of its kind that began before it."""
    return not acked_unlanded


@rule(
    "BACKUP-04",
    kind=Kind.STATE,
    needs=("lifecycle",),
    source="R-HASH-05, R-HASH-06, R-PF-02; H-08, H-14, H-61",
    reference="put.start_puts",
)
def a_prefix_has_one_name_in_storage(many_names: Sequence[object]) -> bool:
    """All puts and queries MUST name a page of the same prefix alike: what the write path stores the read path must find."""
    return not many_names


@rule(
    "BACKUP-05",
    kind=Kind.STATE,
    needs=("lifecycle",),
    source="R-HASH-02, R-HASH-04, R-HASH-06; H-13, H-14, sglang#26747",
    reference="put.start_puts",
)
def a_name_in_storage_means_one_prefix(many_prefixes: Sequence[object]) -> bool:
    """A name in storage MUST stand for one prefix in one namespace: another position or another tenant is another page."""
    return not many_prefixes


@rule(
    "BACKUP-06",
    kind=Kind.STATE,
    needs=("lifecycle", "data"),
    source="R-BK-01",
    reference="put.accepted",
)
def what_is_put_is_one_page_of_one_prefix(put_wrong: Sequence[object]) -> bool:
    """A put MUST write the whole contents of one page, computed in the namespace and at the place that it is for."""
    return not put_wrong


@rule("BACKUP-07", kind=Kind.STATE, needs=("lifecycle", "steps"), source="R-BK-04", reference="put.accepted")
def a_put_stops_where_storage_refuses(put_after_failure: Sequence[object]) -> bool:
    """A put MUST go in prefix order and write nothing behind a page that storage refused."""
    return not put_after_failure


@rule(
    "BACKUP-08",
    kind=Kind.STATE,
    needs=("lifecycle", "steps"),
    source="R-BK-01, R-BK-05; H-16",
    reference="put.accepted",
)
def a_put_that_ended_well_has_stored_its_pages(put_missing: Sequence[object]) -> bool:
    """A put that met no refusal MUST have given all of its pages to storage."""
    return not put_missing


@rule(
    "BACKUP-09",
    kind=Kind.STEP,
    on=("settled",),
    strength=Strength.SHOULD,
    needs=("tiers", "lifecycle", "steps"),
    source="R-BK-01, R-BK-03, R-BK-04; H-60",
    reference="life.tick",
)
def what_is_backed_up_gets_into_storage(unstored: Sequence[object]) -> bool:
    """When everything has settled, each page whose backup was acknowledged with storage attached SHOULD be in storage, if storage refused nothing."""
    return not unstored


@rule(
    "BACKUP-10",
    kind=Kind.STATE,
    needs=("tiers", "steps", "copy_faults"),
    source="sglang#38427",
    reference="backup.acknowledge_backups",
)
def what_was_not_copied_has_no_host_copy(failed_hosted: Sequence[object]) -> bool:
    """When a backup that failed has ended, its pages MUST NOT have a host copy, unless another backup is under way for them."""
    return not failed_hosted
