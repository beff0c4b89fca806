"""Compressed tokens: several tokens of the model share one slot of sparse host memory.

With a ratio of q a group of q tokens is compressed to one when its last token is computed.  The step after that backs it
up; the q − 1 steps before have nothing whole.  The last tokens of a prompt that fill no group have no slot: they stay on the
device until their group is whole.  With q = 1 each token is a group, and these rules say what the others say.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse import rows as _rows  # noqa: F401 - its facts
from kvlitmus.spec.sparse.calls import SparseRequest
from kvlitmus.spec.sparse.state import SparseState, backup_place
from kvlitmus.spec.words.units import Slot


@fact(0)
def sparse_ratio(state: SparseState) -> int:
    """How many tokens of the model are compressed to one that has a slot."""
    return state.ratio


@fact(0)
def sparse_length(call: SparseRequest) -> int:
    """How many tokens of the model a sequence has with this step."""
    return call.length


@fact(0)
def sparse_backup_place(state: SparseState, call: SparseRequest) -> int:
    """Where in its row the last whole group before the newest token has its slot; −1 if there is none."""
    return backup_place(call.length, state.ratio)[0]


@fact(0)
def sparse_backup_slots(state: SparseState, call: SparseRequest, sparse_backup_place: int) -> Sequence[Slot]:
    """The slot of that group, if its row has the page already."""
    row = state.of(call.row)
    return [row.slot(sparse_backup_place)] if 0 <= sparse_backup_place < row.allocated else []


@fact(0)
def sparse_prompt(call: SparseRequest) -> int:
    """How many tokens of the model are staged, or come from a peer."""
    return call.prompt or call.tokens


# Rules


@rule(
    "SPARSE-43",
    on=(On.SPARSE_BACKUP,),
    source="R-SP-08",
    reference="sparse.back_up",
    allowed="no backup: {sparse_length} − 1 tokens are no whole number of groups of {sparse_ratio}",
    premise="sparse_granted",
)
def only_whole_groups_are_backed_up(sparse_granted: Sequence[Slot], sparse_length: int, sparse_ratio: int) -> bool:
    """Where q tokens are compressed to one, a step MUST NOT back up anything unless the tokens before the newest one are a
    whole number of groups of q.
    """
    return not sparse_granted or (sparse_length - 1) % sparse_ratio == 0


@rule(
    "SPARSE-44",
    on=(On.SPARSE_BACKUP,),
    source="R-SP-08",
    reference="sparse.back_up",
    allowed="the slot at {sparse_backup_place} of the row",
    premise="sparse_granted",
)
def a_group_goes_to_its_own_slot(
    sparse_granted: Sequence[Slot], sparse_backup_place: int, sparse_backup_slots: Sequence[Slot], sparse_page: int
) -> bool:
    """A step of a sequence of n tokens that backs up a group MUST copy it to slot (n − 1) / q − 1 of its row. The row
    has that slot already, or it is at that place in a page that the step takes.
    """
    due = [*sparse_backup_slots, *sparse_granted][:1]
    return all(slot == due[0] and slot % sparse_page == sparse_backup_place % sparse_page for slot in sparse_granted)


@rule(
    "SPARSE-45",
    on=(On.SPARSE_STAGE, On.SPARSE_PREALLOC),
    source="R-SP-08",
    reference="sparse.stage",
    allowed="one slot for each whole group of {sparse_ratio} out of {sparse_prompt} tokens",
)
def a_prompt_has_a_slot_for_each_whole_group(
    sparse_granted: Sequence[Slot], sparse_prompt: int, sparse_ratio: int
) -> bool:
    """A prompt that is staged, or comes from a peer, MUST have one slot for each whole group of q of its tokens, and none for those that are left."""
    return len(sparse_granted) == sparse_prompt // sparse_ratio
