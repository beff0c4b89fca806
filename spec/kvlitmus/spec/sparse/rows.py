"""Sparse host memory: whole pages behind rows of single tokens.

Under sparse attention a request's KV stays on the host, and its row names the slot of each token.  Rows are read token by
token, but memory is handed out by the page, so that what goes to storage or to another machine goes in whole pages.  From
that follows what these rules say: a request is rounded up to the page; only missing pages are allocated; who asks again
gets the same slots; the last page is the row's though it is used in part only, and is given back with the others.

What can't be granted whole is refused before anything is allocated, in whatever way Python runs: an ``assert`` is no check
under ``python -O``.  After a refusal everything is as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse.buffer import swapped
from kvlitmus.spec.sparse.calls import (
    SparseCall,
    SparseConnect,
    SparseCopied,
    SparseDone,
    SparseFree,
    SparseMisuse,
    SparseRead,
    SparseReady,
    SparseRequest,
    SparseSwap,
    SparseTransferred,
)
from kvlitmus.spec.sparse.state import SparseState, advance_sparse, granted_pages
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo, Pages, Slot, Tokens, page_ceil, same

# What was asked for


@fact(0, before="state")
def sparse_then(state: SparseState, call: SparseCall, answer: SparseDone) -> SparseState:
    """What is known after the call, as far as the call and its answer say."""
    return advance_sparse(state, call, answer)


@fact(0)
def sparse_page(state: SparseState) -> int:
    """Slots in a page of the sparse pool."""
    return state.page_size


@fact(0)
def sparse_start(call: SparseRequest) -> int:
    """The first token that a request is about."""
    return call.start


@fact(0)
def sparse_tokens(call: SparseRequest) -> int:
    """How many tokens a request is about; it may be none or a negative number."""
    return call.tokens


@fact(0)
def sparse_missing(state: SparseState, call: SparseRequest) -> Pages:
    """How many pages the row lacks up to the end of the last page that is asked for."""
    return state.missing(call)


@fact(0)
def sparse_nothing(setting: Setting, call: SparseRequest) -> bool:
    """Whether a request is about no token, and is answered with no slots whatever else it says."""
    return call.tokens <= 0 and setting.profile.sparse_count == "empty"


@fact(0)
def sparse_refusal(state: SparseState, call: SparseRequest, sparse_nothing: bool) -> str:
    """Why a request must be refused whatever is free, in words; empty where nothing is wrong with it."""
    if (call.start < 0 or call.tokens < 0) and not sparse_nothing:
        return "its start or its count is negative"
    if call.start > state.of(call.row).allocated and not sparse_nothing:
        return f"the row has no slots before token {call.start}"
    if call.tokens > 0 and page_ceil(call.end, state.page_size) > state.width:
        return "the row is not wide enough"
    return "" if call.peer in (0, state.page_size) else f"the pool has pages of {state.page_size}"


@fact(0)
def sparse_short(state: SparseState, call: SparseRequest) -> bool:
    """Whether fewer pages are free, and promised to no other row, than the row lacks."""
    return state.missing(call) > state.free_for(call.row)


# What was answered


@fact(0)
def sparse_refused(answer: SparseDone) -> bool:
    """Whether the request was refused."""
    return answer.slots is None


@fact(0)
def sparse_granted(answer: SparseDone) -> Sequence[Slot]:
    """The slots that were answered."""
    return answer.slots or ()


@fact(0)
def sparse_held(state: SparseState, call: SparseRequest) -> Sequence[Slot]:
    """The slots that the row had already for the first of the tokens that are asked for."""
    row = state.of(call.row)
    return [row.slot(token) for token in range(call.start, min(call.end, row.allocated))] if call.start >= 0 else []


@fact(0)
def sparse_new(state: SparseState, call: SparseRequest, answer: SparseDone) -> Sequence[PageNo]:
    """The pages that were allocated for a request, as its answer shows them."""
    return granted_pages(state, call, answer.slots or ())


@fact(0)
def sparse_row_slots(state: SparseState, call: SparseRead) -> Sequence[Slot]:
    """All slots of the row that is read: those of all its pages, in order."""
    return state.of(call.row).slots


@fact(0)
def sparse_freed(state: SparseState, sparse_then: SparseState, call: SparseCall, answer: SparseDone) -> int | Unknown:
    """How many pages more must be free after the call, or fewer, by what is known of rows, copies and peers; unknown where nobody declares what it does."""
    if isinstance(call, SparseRequest):
        return 0 if answer.slots is None else -state.missing(call)
    if isinstance(call, SparseFree | SparseCopied | SparseTransferred):
        return sparse_then.free_pages - state.free_pages
    return UNKNOWN if undeclared(call) else 0


def undeclared(call: SparseCall) -> bool:
    """Whether a call is misuse of which the profile doesn't say what happens."""
    return isinstance(call, SparseMisuse) and not call.declared


@fact(0)
def sparse_peer_fits(state: SparseState, call: SparseConnect) -> bool:
    """Whether the peer's pages have as many tokens as the pool's own."""
    return call.page_size == state.page_size


@fact(0)
def sparse_accepted(answer: SparseDone) -> bool:
    """Whether the request was admitted or the peer was accepted; of what can't be wanted, whether it was not answered by an error."""
    return answer.accepted


@fact(0)
def sparse_misuse(setting: Setting) -> str | Unknown:
    """What the profile declares of tokens that can't be wanted, ``reject`` or ``ignore``; unknown where that is undefined."""
    declared = setting.profile.misuse
    return UNKNOWN if declared == "undefined" else declared


# What a row decodes from


@fact(0)
def sparse_wanted(call: SparseSwap) -> Sequence[int]:
    """The tokens whose places in the row's buffer are asked for."""
    return call.wanted


@fact(0)
def sparse_places(answer: SparseDone) -> Sequence[int]:
    """The places in the row's buffer that were answered."""
    return answer.places


@fact(0)
def sparse_room(state: SparseState) -> int:
    """How many tokens a row's buffer has room for."""
    return state.room


@fact(0)
def sparse_newest(state: SparseState, call: SparseSwap) -> int:
    """The newest token of the sequence, which was computed on the device."""
    return state.hosted(call.length) - 1


@fact(0)
def sparse_fits(state: SparseState, call: SparseSwap, sparse_room: int) -> bool:
    """Whether the buffer has room for the whole sequence."""
    return state.hosted(call.length) <= sparse_room


@fact(0)
def sparse_kept(state: SparseState, call: SparseSwap) -> Mapping[int, int]:
    """The places of the wanted tokens that are in the buffer of a sequence that has no room there."""
    buffer = state.buffers[call.row]
    kept = {} if state.hosted(call.length) <= buffer.room else dict(zip(buffer.tokens, range(buffer.room), strict=True))
    return {token: kept[token] for token in call.wanted if token in kept}


@fact(0)
def sparse_places_due(state: SparseState, call: SparseSwap) -> Sequence[int]:
    """The places that the wanted tokens must have."""
    return swapped(state.buffers[call.row], state.hosted(call.length), call.wanted)[1]


@fact(0)
def sparse_swaps_in(
    sparse_wanted: Sequence[int], sparse_newest: int, sparse_kept: Mapping[int, int], sparse_fits: bool
) -> bool:
    """Whether some of the wanted tokens must be copied from the host."""
    return not sparse_fits and any(token != sparse_newest and token not in sparse_kept for token in sparse_wanted)


# What was seen


@fact(1, ports=("sparse",), before="sparse_free_before")
def sparse_free_after(sparse_then: SparseState) -> Tokens | Unknown:
    """How many slots are free after the call, as the pool says."""
    return sparse_then.seen.available


@fact(3, ports=("sparse_inspect",))
def sparse_rows(answer: SparseDone) -> Mapping[int, Sequence[int]] | Unknown:
    """The slots of each row that has some, as the snapshot shows them."""
    view = answer.seen.view
    return UNKNOWN if view is UNKNOWN else {row: slots for row, slots in view.rows.items() if slots}


@fact(0)
def sparse_rows_due(sparse_then: SparseState, call: SparseCall) -> Mapping[int, Sequence[Slot]] | Unknown:
    """The slots that each row must have after the call, rows without any left out; unknown where nobody declares what it does."""
    if undeclared(call):
        return UNKNOWN
    return {number: row.slots for number, row in sparse_then.rows.items() if row.pages}


@fact(0)
def sparse_row(call: SparseCall) -> int:
    """The row that the call is about; −1 for none."""
    return -1 if isinstance(call, (SparseConnect, SparseCopied, SparseReady, SparseTransferred)) else call.row


# Rules


ASKED = (On.SPARSE_REQUEST, On.REFUSED_SPARSE_REQUEST)
CALLS = (
    *(On.SPARSE_REQUEST, On.REFUSED_SPARSE_REQUEST, On.SPARSE_READ, On.SPARSE_FREE, On.SPARSE_ADMIT, On.SPARSE_SWAP),
    *(On.SPARSE_MISUSE, On.SPARSE_CONNECT, On.SPARSE_COPIED, On.SPARSE_READY, On.SPARSE_RESERVE, On.SPARSE_TRANSFERRED),
    *(On.SPARSE_GROW, On.REFUSED_SPARSE_GROW),
)
"""All calls; staging, backups and prompts from peers are requests."""

request_rule = partial(rule, on=(On.SPARSE_REQUEST,), reference="sparse.request")
refusal_rule = partial(rule, reference="sparse.refusal")
swap_rule = partial(rule, on=(On.SPARSE_SWAP,), source="R-SP-11", reference="sparse.swap")


@request_rule("SPARSE-01", source="R-SP-01", allowed="one slot for each of {sparse_tokens} tokens")
def a_grant_names_one_slot_for_each_token(sparse_granted: Sequence[Slot], sparse_tokens: int) -> bool:
    """A granted request MUST be answered with exactly one slot for each token asked for; with none where it asks for
    none, or for fewer.
    """
    return len(sparse_granted) == max(0, sparse_tokens)


@request_rule("SPARSE-02", source="R-SP-03", allowed="{sparse_held} for the first of the tokens", premise="sparse_held")
def who_asks_again_gets_the_same_slots(sparse_granted: Sequence[Slot], sparse_held: Sequence[Slot]) -> bool:
    """Tokens for which the row has slots MUST be answered with these slots, also those of its last page that nobody has
    asked for before.
    """
    return same(sparse_granted[: len(sparse_held)], sparse_held)


@request_rule(
    "SPARSE-03",
    source="R-SP-02",
    allowed="whole pages of {sparse_page} slots, each token at its place in one",
    premise="sparse_granted",
)
def a_row_is_made_of_whole_pages(sparse_granted: Sequence[Slot], sparse_start: int, sparse_page: int) -> bool:
    """The tokens of one page of a row MUST lie in one page of the pool, each at its own place in it."""
    for at, slot in enumerate(sparse_granted):
        place = (sparse_start + at) % sparse_page
        if slot % sparse_page != place or (at and place and slot != sparse_granted[at - 1] + 1):
            return False
    return True


@rule(
    "SPARSE-06",
    on=CALLS,
    source="R-SP-02, R-SP-03, R-SP-05, R-SP-06; sglang#23606",
    reference="sparse.available",
    allowed="the {sparse_free_before} slots that were free, and {sparse_freed} pages more or less",
)
def what_is_free_follows_from_what_is_held(
    sparse_free_before: Tokens, sparse_free_after: Tokens, sparse_freed: int, sparse_page: int
) -> bool:
    """A call MUST take those pages alone that a granted request lacks, and free those of a row that is given back, each
    once. Pages that a copy or a peer still writes to are free when that ends. Any other call leaves as much free as
    there was, and so does a refusal.
    """
    return sparse_free_after - sparse_free_before == sparse_freed * sparse_page


@rule("SPARSE-07", on=(On.SPARSE_READ,), source="R-SP-02", reference="sparse.read", allowed="{sparse_row_slots}")
def a_row_is_read_back_whole(sparse_granted: Sequence[Slot], sparse_row_slots: Sequence[Slot]) -> bool:
    """Reading a row MUST name all slots of all its pages in order, those of a last page that is used in part included,
    and nothing else.
    """
    return same(sparse_granted, sparse_row_slots)


@refusal_rule(
    "SPARSE-09",
    on=(On.REFUSED_SPARSE_REQUEST,),
    source="R-SP-01",
    allowed="{sparse_tokens} slots: nothing stands in the way",
)
def what_can_be_granted_is_granted(sparse_refusal: str, sparse_short: bool) -> bool:
    """A request MUST NOT be refused that starts within what is allocated, ends within the row, and finds pages enough;
    unless it is for a peer that is refused.
    """
    return bool(sparse_refusal) or sparse_short


@refusal_rule(
    "SPARSE-12",
    on=ASKED,
    source="R-SP-01, R-SP-04, R-SP-05, R-SP-14; sglang#23606",
    allowed="a refusal: {sparse_refusal}",
    premise="sparse_refusal",
)
def what_is_asked_wrongly_is_refused(sparse_refusal: str, sparse_refused: bool) -> bool:
    """A request MUST be refused, also where Python runs without asserts, that leaves a hole, ends beyond its row, has a
    negative start or count, or is for a peer with pages of another size. A negative count may be none by the profile.
    """
    return sparse_refused or not sparse_refusal


@refusal_rule(
    "SPARSE-13",
    on=ASKED,
    source="R-SP-05",
    allowed="a refusal: the row lacks {sparse_missing} pages",
    premise="sparse_short",
)
def a_request_is_granted_whole_or_not_at_all(sparse_short: bool, sparse_refused: bool) -> bool:
    """A request MUST be refused where fewer pages are free than the row lacks: no part of it is granted.  Pages that
    admission promised to another row are not free for this one.
    """
    return sparse_refused or not sparse_short


@rule(
    "SPARSE-14",
    on=(On.SPARSE_REQUEST,),
    source="R-SP-01",
    reference="sparse.refusal",
    allowed="no slots (the profile's sparse_count says that fewer than none are none)",
    premise="sparse_nothing",
)
def a_request_for_nothing_takes_nothing(
    sparse_nothing: bool, sparse_new: Sequence[PageNo], sparse_granted: Sequence[Slot]
) -> bool:
    """A request for no tokens, or for fewer where the profile takes that for none, MUST name no slots."""
    return not sparse_nothing or not (sparse_new or sparse_granted)


@rule(
    "SPARSE-17",
    on=CALLS,
    source="R-SP-02, R-SP-03, R-SP-05, R-SP-06, R-SP-14",
    reference="sparse.request",
    allowed="{sparse_rows_due}",
)
def each_row_has_what_it_was_granted(
    sparse_rows: Mapping[int, Sequence[int]], sparse_rows_due: Mapping[int, Sequence[Slot]]
) -> bool:
    """After every call each row MUST have all slots of the pages that it had, and of those that the call allocated for
    it. A row that was given back, or whose transfer failed, has none.
    """
    return sparse_rows.keys() == sparse_rows_due.keys() and all(
        same(slots, sparse_rows_due[row]) for row, slots in sparse_rows.items()
    )


@rule(
    "SPARSE-22",
    on=(On.SPARSE_CONNECT,),
    source="sglang#23606",
    reference="sparse.connects",
    allowed="peers with pages of {sparse_page}, and no others",
)
def only_peers_with_equal_pages_are_accepted(sparse_peer_fits: bool, sparse_accepted: bool) -> bool:
    """A peer MUST be accepted if its pages have as many tokens as the pool's own, and refused if not: pages are sent
    whole, and never mixed.
    """
    return sparse_accepted == sparse_peer_fits


@swap_rule(
    "SPARSE-23", allowed="one place for each of {sparse_wanted}, of the {sparse_room} and the newest token's own"
)
def each_wanted_token_has_a_place(sparse_places: Sequence[int], sparse_wanted: Sequence[int], sparse_room: int) -> bool:
    """Each token that is wanted MUST have exactly one place of the row's buffer."""
    return len(sparse_places) == len(sparse_wanted) and all(0 <= place <= sparse_room for place in sparse_places)


@swap_rule("SPARSE-24", allowed="distinct places for {sparse_wanted}")
def no_place_holds_two_tokens(sparse_places: Sequence[int]) -> bool:
    """Tokens that are wanted together MUST have distinct places."""
    return len(set(sparse_places)) == len(sparse_places)


@swap_rule(
    "SPARSE-25",
    source="R-SP-11, R-SP-14",
    allowed="{sparse_wanted}: the sequence fits into the buffer",
    premise="sparse_fits",
)
def a_sequence_that_fits_lies_in_order(
    sparse_fits: bool, sparse_places: Sequence[int], sparse_wanted: Sequence[int]
) -> bool:
    """As long as the whole sequence fits into the buffer, each token MUST have the place of its own number."""
    return not sparse_fits or same(sparse_places, sparse_wanted)


@swap_rule(
    "SPARSE-26", source="R-SP-11, R-SP-13", allowed="place {sparse_room} for token {sparse_newest}, and for no other"
)
def the_newest_token_has_its_own_place(
    sparse_fits: bool, sparse_places: Sequence[int], sparse_wanted: Sequence[int], sparse_newest: int, sparse_room: int
) -> bool:
    """Where a sequence is longer than the buffer, its newest token MUST have the place behind the others, and no other
    token has it: it is on the device alone.
    """
    if sparse_fits:
        return True
    pairs = zip(sparse_wanted, sparse_places, strict=False)
    return all((token == sparse_newest) == (place == sparse_room) for token, place in pairs)


@swap_rule("SPARSE-27", allowed="{sparse_kept} as before", premise="sparse_kept")
def what_is_in_the_buffer_stays(
    sparse_places: Sequence[int], sparse_wanted: Sequence[int], sparse_kept: Mapping[int, int]
) -> bool:
    """A token that is in the buffer MUST stay in its place as long as it is wanted: it isn't copied again."""
    pairs = zip(sparse_wanted, sparse_places, strict=False)
    return all(sparse_kept.get(token, place) == place for token, place in pairs)


@swap_rule("SPARSE-28", source="R-SP-11, R-SP-14", allowed="{sparse_places_due}", premise="sparse_swaps_in")
def what_is_missing_takes_the_place_used_least_recently(
    sparse_swaps_in: bool, sparse_places: Sequence[int], sparse_places_due: Sequence[int]
) -> bool:
    """Tokens that are not in the buffer MUST take, in the order in which they are wanted, the places that were used least
    recently among those that hold no wanted token.  A place is used by being filled and by holding what is wanted; in one
    step, those that are filled count as used before the others, and the others keep their order.  A request begins with
    its places in their own order, and as long as its sequence fits none of them counts as used.
    """
    return not sparse_swaps_in or same(sparse_places, sparse_places_due)
