"""The parts of the compiled core that are numbers alone, beside what they are the twins of, after every few changes.

Locks, pools, the heap of victims and their worth, comparing tokens, tags, the table of pages; levels and nodes are in
``test_native_levels.py``.  Python's pools and heaps are proven (``tests/proofs/optimized/loops.py``), the others are
told in a few lines here.  What is left of the core handles memory and Python's objects; that is compared as a whole
(``test_cores.py``, ``test_small_states.py``), under sanitizers too.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.support.night import by_turns

pytest.importorskip("numba")
from kvlitmus.optimized.evict import Victims
from kvlitmus.optimized.kernels import HEAP, WHERE
from kvlitmus.optimized.policy import POLICIES
from kvlitmus.optimized.pool import PagePool
from tests.optimized.support.driver import driver, said

Numbers = tuple[int, ...]

MAIN = r"""
int main() {
    int count;
    while (std::scanf("%d", &count) == 1) {
        std::vector<long> given(count);
        for (long& number : given) if (std::scanf("%ld", &number) != 1) return 1;
        play(given);
        std::printf("\n");
    }
}
"""
BEGIN = '#include <cstdio>\n#include <vector>\n#include "{}"\nusing namespace kvlitmus;\n'


class Twins(NamedTuple):
    """A part of the core: its header, what plays a list with it, and what says the same; ``slips`` that must show."""

    header: str
    play: str
    twin: Callable[[Numbers], list[int]]
    lists: Callable[[int], Iterator[Numbers]]
    slips: tuple[tuple[str, str], ...]


def behind(beginnings: Sequence[Numbers], changes: Sequence[int], length: int) -> Iterator[Numbers]:
    """Every list of so many changes, behind each of these beginnings."""
    for beginning in beginnings:
        for more in product(changes, repeat=length):
            yield (*beginning, *more)


# Locks: an entry is added, or taken out (below 0)

LOCKS = r"""
void play(const std::vector<long>& given) {
    Locks locks;
    for (long one : given) {
        bool done = true;
        if (one >= 0) locks.add(one); else done = locks.remove(-one - 1);
        std::printf("%d ", done);
        for (uint32_t at = 0; at < locks.size(); ++at) std::printf("%u ", locks[at]);
        if (!locks.empty()) std::printf("%u ", locks.largest());
    }
}
"""


def locks(given: Numbers) -> list[int]:
    """A sorted list, and its largest entry."""
    entries: list[int] = []
    found = []
    for one in given:
        done = one >= 0 or -one - 1 in entries
        if one >= 0:
            insort(entries, one)
        elif done:
            entries.remove(-one - 1)
        found += [int(done), *entries, *entries[-1:]]
    return found


# Pools: see ``CHANGES``

PAGES = 3

POOL = r"""
void play(const std::vector<long>& given) {
    Pool pool(PAGES, 1, 1);
    int32_t taken[PAGES + 1];
    for (long one : given) {
        int64_t pages[2] = {one % 100 / 10, one % 10}, what = one / 100, wrong = FINE;
        if (what == 0 && pages[1] <= pool.free_count()) {
            pool.take(pages[1], taken);
            for (int64_t at = 0; at < pages[1]; ++at) std::printf("%d ", taken[at]);
        }
        if (what == 1) wrong = pool.take_back(pages + 1, 1, USED);
        if (what == 2) wrong = pool.take_back(pages, 2, USED);
        if (what == 3) wrong = pool.hand_over(pages + 1, 1, USED, CACHED);
        if (what == 4) wrong = pool.take_back(pages + 1, 1, CACHED);
        if (what == 5) { if (pages[1]) pool.group_begin(); else pool.group_end(); }
        std::printf("%d ", wrong != FINE);
        for (int64_t page = 0; page < pool.end(); ++page) std::printf("%d ", pool.state(page));
        std::vector<int32_t> free(pool.free_count());
        pool.copy_free(free.data());
        for (int32_t page : free) std::printf("%d ", page);
    }
}
"""
TAKE, GIVE, GIVE_TWO, ADOPT, RELEASE, GROUP = (100 * what for what in range(6))
CHANGES = (
    *(TAKE + count for count in (1, 2)),
    *(GIVE + page for page in range(PAGES + 2)),
    *(GIVE_TWO + pages for pages in (12, 21, 22, 13)),
    *(ADOPT + page for page in (1, 2)),
    *(RELEASE + page for page in (1, 2)),
    *(GROUP + open_ for open_ in (0, 1)),
)
POOLS: tuple[Numbers, ...] = ((), (TAKE + 2,), (TAKE + 3, ADOPT + 1, GROUP + 1), (TAKE + 3, GROUP + 1, GIVE + 2))


def pool(given: Numbers) -> list[int]:
    """The Python pool: what it hands out, whether it refused, the states, and the free list."""
    made = PagePool(PAGES, 1, 1)
    found: list[int] = []
    for one in given:
        what, pages, refused = one // 100 * 100, [one % 100 // 10, one % 10], False
        try:
            if what == TAKE:
                taken = made.take(pages[1])
                found += [] if taken is None else taken.tolist()
            elif what in (GIVE, GIVE_TWO):
                made.give_back(pages[1:] if what == GIVE else pages)
            elif what == ADOPT:
                made.adopt(pages[1:])
            elif what == RELEASE:
                made.release(pages[1:])
            elif pages[1]:
                made.group_begin()
            else:
                made.group_end()
        except ValueError:
            refused = True
        found += [int(refused), *made.state.tolist(), *made.stack[: made.free_count].tolist()]
    return found


# Victims: branches of one page are offered at a worth, dropped, and locked or not

HELD = 8
"""Branches at most."""

VICTIMS = r"""
#include "victims.h"
void play(const std::vector<long>& given) {
    Branches branches;
    Victims victims(Policy::lru, branches, Tier::only, 4);
    for (int at = 0; at < HELD; ++at) {
        branches.room();
        victims.room();
        branches[branches.take()].n = 1;
    }
    for (long one : given) {
        int32_t number = one % 10;
        long what = one / 100;
        if (what == 0) { branches[number].touched.one = one % 100 / 10; victims.offer(number); }
        if (what == 1) victims.drop(number);
        if (what == 2) branches[number].kids_end = !branches[number].kids_end;
        if (what == 3) std::printf("%d ", victims.best());
        for (const auto& entry : victims.entries()) std::printf("%d %ld ", entry.number, (long)entry.first);
        for (int at = 0; at < HELD; ++at) std::printf("%d ", victims.where(at));
    }
    for (int at = 0; at < HELD; ++at) branches[at].n = 0;
}
"""
OFFER, DROP, HOLD, BEST = (100 * what for what in range(4))


def offers(*worths: int) -> Numbers:
    """The first branches, offered at these worths."""
    return tuple(OFFER + 10 * worth + number for number, worth in enumerate(worths))


VICTIM_CHANGES = (
    *(OFFER + 10 * worth + number for number in (0, 1, 3, 6) for worth in (0, 1, 2)),
    *(DROP + number for number in (0, 1, 3, 6)),
    *(HOLD + number for number in (0, 1)),
    BEST,
)
HEAPS: tuple[Numbers, ...] = ((), offers(2, 1, 0, 1), offers(0, 1, 2, 1, 2, 0, 1), offers(2, 2, 1, 1, 0, 0, 0, 1))


def victims(given: Numbers) -> list[int]:
    """The Python heap: the best, if that was asked for, the entries with their worth, and where each branch is."""
    branches = {uid: SimpleNamespace(uid=uid, worth=0, held=False) for uid in range(HELD)}
    worth: Any = lambda branch, _: (branch.worth, 0)  # noqa: E731 - a parameter of the heap
    tip: Any = lambda branch: -1 if branch.held else 0  # noqa: E731 - the same
    made = Victims(worth, tip, branches)  # type: ignore[arg-type]
    made.room(HELD - 1)
    found: list[int] = []
    for one in given:
        branch: Any = branches[one % 10]
        if one // 100 * 100 == OFFER:
            branch.worth = one // 10
            made.offer(branch)
        elif one // 100 * 100 == DROP:
            made.drop(branch)
        elif one // 100 * 100 == HOLD:
            branch.held = not branch.held
        else:
            best = made.best()
            found.append(-1 if best is None else best.uid)
        entries = made.places[HEAP, : made.size].tolist()
        found += [number for uid in entries for number in (uid, int(made.keys[uid, 0]))]
        found += made.places[WHERE, :HELD].tolist()
    return found


# What a page is worth: policy, use, age, priority, hits

WORTH = r"""
#include "victims.h"
void play(const std::vector<long>& given) {
    Branch branch;
    branch.touched.one = given[1];
    branch.created.one = given[2];
    branch.priority.one = given[3];
    branch.nodes.hits = given[4];
    Worth found = worth(static_cast<Policy>(given[0]), BranchPage{branch, 0});
    std::printf("%ld %ld ", (long)found.first, (long)found.second);
}
"""


def worth(given: Numbers) -> list[int]:
    """As the Python policies have it."""
    policy, touched, created, priority, hits = given
    page: Any = SimpleNamespace(touched=touched, created=created, priority=priority, hits_at=lambda _: hits)
    return list(list(POLICIES.values())[policy](page, 0))


# Tokens of 4 bytes: those of a page, how many are compared, from where they differ, and to where

COMMON = r"""
void play(const std::vector<long>& given) {
    std::vector<int32_t> mine(given[1] + 1, 7), other(given[1] + 1, 7);
    for (long at = given[2]; at < given[3]; ++at) other[at] ^= 1 << at % 32;
    auto* x = reinterpret_cast<const char*>(mine.data());
    auto* y = reinterpret_cast<const char*>(other.data());
    std::printf("%zu ", common(x, y, given[1] / given[0], 4 * given[0]));
}
"""


def common(given: Numbers) -> list[int]:
    """Whole pages before the first difference."""
    page, length, start, end = given
    return [(start if start < end else length) // page]


def compared(length: int) -> Iterator[Numbers]:
    """Up to so many tokens: one differs, all from one on, or none; pages of which the lengths are whole."""
    for page, tokens in product((1, 2, 3, 16), range(length + 1)):
        if tokens % page == 0:
            for start in range(tokens):
                yield from ((page, tokens, start, end) for end in {start + 1, tokens})
            yield page, tokens, 0, 0


# Tags: the tokens of a page; which one differs in one page and in another, if any does; and where the other hangs

TAGS_OF = r"""
void play(const std::vector<long>& given) {
    Secret secret;
    uint64_t state = 0;
    for (size_t at = 0; at < sizeof(secret) / 8; ++at)
        reinterpret_cast<uint64_t*>(&secret)[at] = state = mixed(state + 0x9E3779B97F4A7C15ull, 0xE7037ED1A0B428DBull);
    std::vector<int32_t> one(given[0], 7), other(given[0], 7);
    if (given[1] >= 0) one[given[1]] ^= 8;
    if (given[2] >= 0) other[given[2]] ^= 8;
    auto tag = [&](int32_t parent, int32_t at, const std::vector<int32_t>& page) {
        return tag_of(parent, at, reinterpret_cast<const char*>(page.data()), 4 * page.size(), secret);
    };
    std::printf("%d ", tag(3, 5, one) == tag(given[3], given[4], other));
}
"""


def tags_of(given: Numbers) -> list[int]:
    """The same for the same page in the same place alone: tags have 32 bits, so one in millions may be wrong."""
    _, one, other, *where = given
    return [int(one == other and where == [3, 5])]


def tagged(length: int) -> Iterator[Numbers]:
    """Pages of which each token differs once, beside each other, and every place beside one."""
    for tokens in (*range(1, 6 * length), 32, 33, 64):
        for one, other in product(range(-1, tokens), repeat=2):
            yield tokens, one, other, 3, 5
    for where in product(range(-2, 6), repeat=2):
        yield (16, -1, -1, *where)


# The table of pages: a branch is put under a tag, or one of those that are there is removed (below 0)

TABLE = r"""
void play(const std::vector<long>& given) {
    PageTable table;
    std::vector<long> tags, there;
    for (long one : given) {
        if (one >= 0) {
            table.room();
            table.put(one, tags.size());
            there.push_back(tags.size());
            tags.push_back(one);
        } else if (!there.empty()) {
            long at = (-one - 1) % there.size(), branch = there[at];
            table.remove(tags[branch], branch);
            there.erase(there.begin() + at);
        }
        for (long branch = 0; branch < (long)tags.size(); ++branch)
            std::printf("%d ", table.find(tags[branch], [&](int32_t one) { return one == branch; }));
    }
}
"""
TAGS = (0, 1, 15, 16, 31)
"""A table begins with 16 places: some share one, at both ends."""


def table(given: Numbers) -> list[int]:
    """Each branch that was ever put, where it is there; else -1."""
    put, there = 0, []
    found: list[int] = []
    for one in given:
        if one >= 0:
            there.append(put)
            put += 1
        elif there:
            del there[(-one - 1) % len(there)]
        found += [branch if branch in there else -1 for branch in range(put)]
    return found


def tables(length: int) -> Iterator[Numbers]:
    """All lists that remove nothing from a table without entries, behind nothing and behind eleven and twelve."""
    full = (15, 31, 15, 0, 16, 1, 31, 47, 15, 2, 14)
    for given in behind(((15, 31, 0), full, (*full, 63)), (*TAGS, *range(-4, 0)), length):
        yield given
    for given in behind(((),), (*TAGS, *range(-3, 0)), length):
        if all(2 * sum(one < 0 for one in given[: at + 1]) <= at + 1 for at in range(len(given))):
            yield given


PARTS = {
    "locks": Twins(
        "branch.h",
        LOCKS,
        locks,
        lambda length: behind(((), (2, 0, 3, 1)), (*range(4), *range(-4, 0)), length + 1),
        (
            ("if (!many_) more[0] = one_;", ""),
            ("if (at == size_ || many_[at] != entry) return false;", "if (at == size_) return false;"),
            ("            if (many_[middle] < entry)", "            if (many_[middle] + 1 < entry)"),
        ),
    ),
    "pools": Twins(
        "pool.h",
        POOL,
        pool,
        lambda length: behind(POOLS, CHANGES, length),
        (
            ("for (int64_t j = 0; j < k; ++j) state_[given[j]] = was;", ""),
            ("given[count - 1 - k]", "given[k]"),
            ("            next += count;\n", ""),
            ("if (page < reserved || page >= end_", "if (page < 0 || page >= end_"),
        ),
    ),
    "victims": Twins(
        "heap.h",
        VICTIMS,
        victims,
        lambda length: behind(HEAPS, VICTIM_CHANGES, length),
        (
            ("while (at > 0 && before(entry,", "while (at > 1 && before(entry,"),
            ("if (child + 1 < heap_.size() && before", "if (child + 2 < heap_.size() && before"),
            ("if (at < heap_.size()) settle(last, at);", "if (at + 1 < heap_.size()) settle(last, at);"),
            ("        return one.number < other.number;", "        return one.number > other.number;"),
        ),
    ),
    "worth": Twins(
        "heap.h",
        WORTH,
        worth,
        lambda length: iter(tuple(product(range(len(POLICIES)), *[range(length + 1)] * 4))),
        (
            ("constexpr int64_t SLRU_HITS = 2;", "constexpr int64_t SLRU_HITS = 3;"),
            ("case Policy::filo: return {-page", "case Policy::filo: return {page"),
        ),
    ),
    "tokens": Twins(
        "pages.h",
        COMMON,
        common,
        lambda length: compared(35 * length),
        (
            ("unlike |= x ^ y;", "unlike = x ^ y;"),
            ("done / page_bytes;", "(done + page_bytes - 1) / page_bytes;"),
            ("return done < page_bytes ? 0 :", "return done <= page_bytes ? 0 :"),
            ("while (done + BLOCK <= bytes)", "while (done < bytes)"),
        ),
    ),
    "tags": Twins(
        "pages.h",
        TAGS_OF,
        tags_of,
        tagged,
        (
            ("take(lane, page + k + lane * BLOCK)", "take(lane, page + k)"),
            ("k += BLOCK, ++lane) take(lane, page + k);", "k += BLOCK, ++lane) {}"),
            ("mixed(lanes[LANES - 1] ^ x, secret.factor[LANES - 1])", "lanes[LANES - 1] ^ x"),
            ("mixed(tokens ^ secret.last, where ^ secret.where)", "mixed(tokens ^ secret.last, secret.where)"),
        ),
    ),
    "table": Twins(
        "pages.h",
        TABLE,
        table,
        tables,
        (
            ("if (((next - home) & mask_) >= ((next - at) & mask_))", "if (true)"),
            ("                at = next;\n", "                break;\n"),
            ("if (old[k].branch != NOBODY) place(old[k]);", "if (old[k].branch != NOBODY) more[k] = old[k];"),
        ),
    ),
}


def differences(folder: Path, part: Twins, length: int, slip: tuple[str, str] = ("", "")) -> tuple[int, list[Numbers]]:
    """How many lists were played, and after which of them the two differ, or the core has died."""
    names = {"PAGES": PAGES, "HELD": HELD}
    program = driver(folder, part.header, BEGIN.format(part.header) + part.play + MAIN, names, slip)
    lists = list(part.lists(length))
    lines = said(program, lists)
    lines += [""] * (len(lists) - len(lines))
    return len(lists), [one for one, line in zip(lists, lines, strict=True) if spoken(part.twin(one)) != line]


def spoken(numbers: Sequence[int]) -> str:
    """As a driver says them."""
    return " ".join([str(number) for number in numbers])


@pytest.mark.proof
@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_the_core_is_its_twin(tmp_path: Path, name: str) -> None:
    many, unlike = differences(tmp_path, PARTS[name], 3)
    assert many > 1_500 and not unlike


@pytest.mark.nightly
@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_the_core_is_its_twin_for_longer(tmp_path: Path, name: str) -> None:
    many, unlike = differences(tmp_path, PARTS[name], 4)
    assert many > 3_000 and not unlike


SLIPS = [(name, slip) for name, part in PARTS.items() for slip in part.slips]
SLIP_IDS = [f"{name}-{at}" for at, (name, _) in enumerate(SLIPS)]


@pytest.mark.proof
@pytest.mark.parametrize(("name", "slip"), by_turns(SLIPS, SLIP_IDS, every=6))
def test_a_slip_in_a_part_of_the_core_is_found(tmp_path: Path, name: str, slip: tuple[str, str]) -> None:
    assert differences(tmp_path, PARTS[name], 2, slip)[1]
