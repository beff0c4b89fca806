"""What is proven of a row's buffer: every rule in all states of small buffers, and the order against stamps of use.

The search goes through every state that a buffer can get into, by every choice of distinct tokens in every order; in
each of them it asks for what can't be wanted as well.  That the order of places is that of their last use is said a
second time, by stamps, and compared over all short runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.plan import verdicts
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.sparse.buffer import SparseBuffer, admitted, swapped
from kvlitmus.spec.sparse.calls import SparseAdmit, SparseDone, SparseMisuse, SparseSwap
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from tests.proofs.sparse.rows import OF_THE_PACK, SWAPPING
from tests.proofs.support.sparse_search import CAPABILITIES, Found, seen

MISUSED = [rule for rule in all_rules().values() if On.SPARSE_MISUSE in rule.on]
OF_SLOTS = "SPARSE-65"
"""A rule on the device's slots behind the buffers, which aren't played here but in the search of growth."""
RULES = [
    rule
    for rule in dict.fromkeys((*(rule for rule in OF_THE_PACK if SWAPPING.intersection(rule.on)), *MISUSED))
    if rule.id != OF_SLOTS
]
ROOMS, LONGEST, STEPS = (1, 2, 3), 6, 3
SETTING = Setting(Config(page_size=8, pages=1, pool="sparse"), Profile(misuse="reject"), SNAPSHOT, CAPABILITIES)

Swap = Callable[[SparseBuffer, int, Sequence[int]], tuple[SparseBuffer, tuple[int, ...]]]


def wishes(room: int, length: int) -> Iterator[tuple[int, ...]]:
    """All that can be wanted of a sequence: distinct tokens, no more than there is room for, in every order."""
    for count in range(min(room, length) + 1):
        yield from permutations(range(length), count)


def unwanted(room: int, length: int) -> Iterator[tuple[int, ...]]:
    """What can't be wanted: tokens that aren't distinct ones of the sequence, and more than there is room for."""
    lawful = {*wishes(room, length)}
    for count in (1, 2):
        yield from (some for some in product(range(-1, length + 1), repeat=count) if some not in lawful)
    yield tuple(range(room + 1))


def misused(state: SparseState, wanted: tuple[int, ...], length: int) -> dict[str, bool]:
    """What the rules say of a step that asks for what can't be wanted."""
    then, accepted = state, True
    try:
        then = reference.swap(state, 0, length, wanted)[0]
    except ValueError:
        accepted = False
    return judged(state, SparseMisuse(0, length, wanted), SparseDone((), seen(then), accepted))


def broken_in(room: int, swap: Swap = swapped) -> Found:
    """What is found with buffers of so much room."""
    pool = reference.request(reference.empty_pool(8, 1, 8, room), 0, 0, 8)[0]
    counts, found = Counter[str](), set[SparseBuffer]()
    todo: list[SparseState] = []
    for length in range(1, LONGEST):
        then = reference.admit(pool, 0, length)
        counts.update(judged(pool, SparseAdmit(0, length), SparseDone((), seen(then))))
        todo.append(then)
    while todo:
        state = todo.pop()
        buffer = state.buffers[0]
        length = buffer.length + 1
        for wanted in unwanted(room, length) if length <= LONGEST else ():
            said = misused(state, wanted, length)
            counts.update(said)
            if wrong := [id for id, kept in said.items() if not kept]:
                return counts, len(found), [f"{', '.join(wrong)}: {wanted} can't be wanted of {length}"]
        for wanted in wishes(room, length) if length <= LONGEST else ():
            then = reference.swap(state, 0, length, wanted)[0]
            answer = SparseDone((), seen(then), places=swap(buffer, length, wanted)[1])
            said = judged(state, SparseSwap(0, length, wanted), answer)
            counts.update(said)
            if wrong := [id for id, kept in said.items() if not kept]:
                return counts, len(found), [f"{', '.join(wrong)}: {wanted} of {length} in {buffer} → {answer.places}"]
            if then.buffers[0] not in found:
                found.add(then.buffers[0])
                todo.append(then)
    return counts, len(found), []


def judged(state: SparseState, call: SparseAdmit | SparseSwap | SparseMisuse, answer: SparseDone) -> dict[str, bool]:
    """What the rules say of a step."""
    inputs = {"setting": SETTING, "state": state._replace(seen=seen(state)), "call": call, "answer": answer}
    return dict(verdicts(RULES, occasions_of(call, answer), CAPABILITIES, inputs, {}))


def by_stamps(room: int, length: int, steps: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The places of the last of these steps, by stamps of use: each step takes the places with the least ones."""
    stamps = {place: (0, 0, place) for place in range(room)}
    held = dict(enumerate(admitted(room, length).tokens))
    answers = []
    for number, wanted in enumerate(steps, 1):
        newest = length + number - 1
        hits = sorted((place for place in held if held[place] in wanted), key=lambda place: stamps[place])
        places: dict[int, int] = {held[place]: place for place in hits} | {newest: room}
        missing = [token for token in wanted if token not in places]
        victims = sorted((place for place in held if place not in hits), key=lambda place: stamps[place])
        for at, (token, place) in enumerate(zip(missing, victims, strict=False)):
            held[place], stamps[place], places[token] = token, (number, 0, at), place
        for at, place in enumerate(hits):
            stamps[place] = (number, 1, at)
        answers.append(tuple([places[token] for token in wanted]))
    return answers


def other_than_by_stamps(room: int, swap: Swap = swapped) -> str:
    """The first short run of a sequence that doesn't fit in which the order isn't that of the stamps; empty if none."""
    length = room + 1
    for steps in product(*(list(wishes(room, length + number)) for number in range(1, STEPS + 1))):
        buffer, answers = admitted(room, length), []
        for number, wanted in enumerate(steps, 1):
            buffer, places = swap(buffer, length + number, wanted)
            answers.append(places)
        if answers != by_stamps(room, length, steps):
            return f"{steps} → {answers}"
    return ""


BOUNDS = f"one row, buffers of 1, 2 and {ROOMS[-1]} places, sequences of up to {LONGEST} tokens, all that can be wanted"
SHORT = f"buffers of 1 and 2 places, all runs of {STEPS} steps"

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_of_sparse_buffers_holds": (tuple(rule.id for rule in RULES), BOUNDS),
    "places_are_used_anew_in_the_order_of_their_last_use": (("SPARSE-28",), SHORT),
}
"""What is proven, for which rules, within which bounds."""
