"""The store over Mooncake's, on a stand-in of its client: what is checked, and what a failed call leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import pytest

pytest.importorskip("numba")

import numpy as np

from kvlitmus.conformance.adapters.stores.mooncake import MooncakePages
from kvlitmus.conformance.adapters.stores.target import FIRST, WITHOUT_YARD, StoreTarget
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Options
from kvlitmus.optimized.storage import mooncake as module
from kvlitmus.optimized.storage import sealed
from kvlitmus.optimized.storage.base import Identity, PageStore
from kvlitmus.optimized.storage.mooncake import SPOILED, MooncakeStore
from kvlitmus.optimized.storage.mooncake_client import Member
from tests.optimized.support.fake_mooncake import BEING_WRITTEN, NO_ROOM, NOT_THERE, FakeClient

KEYS = [sha256(bytes([number])).hexdigest() for number in range(6)]
PAGES = [bytes([number + 1]) * size for number, size in enumerate((0, 1, 8, 63, 64, 100))]
NO_MASTER, TRANSFER_FAILED = -900, -800


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


def opened(client: FakeClient, **more: Any) -> MooncakeStore:
    return MooncakeStore(lambda: client, **{"page_bytes": 100, "batch": 4, "rest": 0.0, **more})


@pytest.fixture
def store(client: FakeClient) -> Iterator[MooncakeStore]:
    one = opened(client)
    yield one
    client.says = lambda *_: None
    one.close()


def test_it_is_a_page_store(store: MooncakeStore, client: FakeClient) -> None:
    assert isinstance(store, PageStore)
    assert store.put(KEYS, PAGES) == [True] * 6
    assert store.get(KEYS) == PAGES
    assert store.get([KEYS[5], "no", KEYS[5], KEYS[0]], 100) == [PAGES[5], None, PAGES[5], None]
    assert (store.exists(KEYS), store.exists([*KEYS[:5], "no"]), store.exists(["", *KEYS])) == (6, 5, 0)
    assert store.put([KEYS[1], "", "k"], [b"other", b"", bytes(101)]) == [True, False, False]
    assert store.get([KEYS[1]]) == [PAGES[1]], "what is there stays"
    assert store.counts() == {"stored": 6, "hit": 9, "miss": 1, "kept": 1, "refused": 2}
    assert client.registered and client.leased
    client.objects["kvlitmus:other"] = b"another's"
    store.clear()
    assert client.objects == {"kvlitmus:other": b"another's"} and store.exists(KEYS) == 0


def test_buffers_of_misses_are_left_alone(store: MooncakeStore) -> None:
    store.put(KEYS, PAGES)
    buffers = [bytearray(b"x" * size) for size in (100, 63, 100)]
    assert store.get_into([KEYS[5], KEYS[4], "no"], buffers) == [True, False, False]
    assert buffers == [PAGES[5], b"x" * 63, b"x" * 100]


def judged() -> set[str]:
    """The rules that the store breaks on the stand-in, damage and dead writers included."""
    target = StoreTarget(lambda: MooncakePages(FakeClient(), "kvlitmus:test"), FIRST, WITHOUT_YARD)
    items = plan.items(plan.STORE_CONFIGS, FIRST, steps=30)
    found = [engine.run_item(target, item, Options(shrink_trials=0)).findings for item in items]
    return {rule for findings in found for finding in findings for rule in finding.rules}


def test_the_store_pack_passes() -> None:
    assert judged() == set()


def test_a_store_that_believes_what_comes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def believing(rows: Any, _: Any, __: Any, lengths: Any) -> None:
        for at, came in enumerate(lengths):
            if came >= sealed.sealed_bytes(0):
                lengths[at] = min(int(rows[at][came // 8 - sealed.SEAL_WORDS + 1]), 4096)

    monkeypatch.setattr(module, "opened", believing)
    assert judged() & {"STORE-07", "STORE-08"}


# -- seals -----------------------------------------------------------------------------------------


def test_no_changed_bit_passes() -> None:
    identity, page = Identity(), bytes(range(1, 30))
    rows, lengths = np.zeros((1, 16), np.uint64), np.array([len(page)])
    keys, names, other = sealed.keys_of(identity, 4), np.zeros((1, 4), np.uint64), np.ones((1, 4), np.uint64)
    for one in (names, other):  # as names are: one form of the compiled functions is enough
        one.setflags(write=False)
    data = rows.view(np.uint8)[0]
    data[: len(page)] = np.frombuffer(page, np.uint8)
    sealed.seal(rows, keys, names, lengths)
    size = sealed.sealed_bytes(len(page))

    def length(came: int = size, named: Any = names, with_: Any = keys) -> int:
        found = np.array([came])
        sealed.opened(rows, with_, named, found)
        return int(found[0])

    assert length() == len(page)
    for bit in range(size * 8):
        data[bit // 8] ^= 1 << bit % 8
        assert length() == sealed.DAMAGED, bit
        data[bit // 8] ^= 1 << bit % 8
    for at in (7, 15):  # the highest bits of two words
        data[at] ^= 128
    assert length() == sealed.DAMAGED
    for at in (7, 15):
        data[at] ^= 128
    assert [length(came) for came in (size - 8, size + 8, size - 1, 0, 1 << 20, -1)] == [sealed.DAMAGED] * 5 + [-1]
    assert length(named=other) == length(with_=sealed.keys_of(Identity(rank=1, ranks=2), 4)) == -2
    assert length() == len(page)


def test_sums_are_nh() -> None:
    """By the definition: each half of a word plus that of the key, modulo 2**32, multiplied and added."""
    draw = np.random.default_rng(0)
    words, keys = draw.integers(0, 1 << 64, (2, 5), dtype=np.uint64)
    names = np.zeros((1, 4), np.uint64)
    for one in (keys, names):
        one.setflags(write=False)
    low, total = (1 << 32) - 1, 0
    for word, key in zip(words.tolist(), keys.tolist(), strict=True):
        total += ((word + key) & low) * (((word >> 32) + (key >> 32)) & low)
    row = np.concatenate([words, np.zeros(sealed.SEAL_WORDS, np.uint64)]).reshape(1, -1)
    sealed.seal(row, keys, names, np.array([40]))
    assert int(row[0, 7]) == (total + 40 * 0x9E3779B97F4A7C15) % (1 << 64)


# -- codes -----------------------------------------------------------------------------------------


def only(method: str, answer: Any) -> Any:
    """Answers one method with codes for the names; an exception is raised."""

    def says(asked: str, names: Sequence[str]) -> Any:
        if asked != method:
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, list) else [answer] * len(names)

    return says


@pytest.mark.parametrize("code", [NOT_THERE, BEING_WRITTEN, -707, TRANSFER_FAILED, NO_MASTER, -1, 0, 8, 56, 1 << 40])
def test_a_get_that_says_anything_else_than_the_page_is_a_miss(
    store: MooncakeStore, client: FakeClient, code: int
) -> None:
    store.put(KEYS, PAGES)
    client.says = only("get", code)
    assert store.get(KEYS) == [None] * 6
    client.says = only("get", [code])
    assert store.get(KEYS[4:]) == [None] * 2


@pytest.mark.parametrize("error", [RuntimeError("client"), OSError("gone"), MemoryError()])
@pytest.mark.parametrize("method", ["get", "put", "exist", "remove", "regex"])
def test_what_the_client_raises_is_a_miss(
    store: MooncakeStore, client: FakeClient, method: str, error: Exception
) -> None:
    store.put(KEYS[:1], PAGES[:1])
    client.says = only(method, error)
    store.clear()
    assert store.get(KEYS)[1:] == [None] * 5
    assert True not in store.put(KEYS[1:], PAGES[1:]) or method not in ("put", "exist")
    client.says = lambda *_: None
    assert store.put(KEYS, PAGES) == [True] * 6 and store.get(KEYS) == PAGES


def test_a_put_is_stored_only_when_it_can_be_read(store: MooncakeStore, client: FakeClient) -> None:
    client.writing.add(str(store.place_of(KEYS[0])))
    assert store.put(KEYS[:2], PAGES[:2]) == [False, True], "somebody else has only begun"
    client.room = 0
    assert store.put(KEYS[2:4], PAGES[2:4]) == [False, False]
    client.says = only("put", [0, NO_ROOM])
    assert store.put(KEYS[2:4], PAGES[2:4]) == [False, False], "it says done, and nothing is there"


def test_a_damaged_page_is_replaced_in_spite_of_its_lease(store: MooncakeStore, client: FakeClient) -> None:
    store.put(KEYS, PAGES)
    place = store.place_of(KEYS[5])
    assert place is not None
    client.objects[place] = client.objects[place][:-1] + b"?"
    assert store.get(KEYS[5:]) == [None] and place in client.leased
    assert store.put(KEYS[5:], PAGES[5:]) == [True] and store.get(KEYS[5:]) == PAGES[5:]
    assert store.counts()["damaged"] == 1


# -- what a failed transfer leaves behind -----------------------------------------------------------


def all_left() -> None:
    """Return when no call is under way."""
    for thread in threading.enumerate():
        if thread.name == "kvlitmus-mooncake":
            thread.join()


def test_rows_of_a_failed_transfer_are_not_used_again(client: FakeClient) -> None:
    joined: list[FakeClient] = []

    def connect() -> FakeClient:
        joined.append(client)
        return client

    store = MooncakeStore(connect, page_bytes=100, batch=4, rest=0.0, lanes=1)
    store.put(KEYS, PAGES)
    for _ in range(3):
        before = set(client.registered)
        client.says = only("get", [TRANSFER_FAILED, 56, NOT_THERE, NOT_THERE])
        assert store.get(KEYS[:4])[0] is None
        client.says = lambda *_: None
        assert store.get(KEYS) == PAGES
        assert set(client.registered) > before, "a new lane, and the old one's memory stays"
    for _ in range(SPOILED - 3):
        client.says = only("get", TRANSFER_FAILED)
        store.get(KEYS[:1])
    client.says = lambda *_: None
    assert store.get(KEYS) == PAGES
    all_left()
    assert len(joined) == 2 and client.closed == 1 and len(client.registered) == 1
    store.close()


def test_who_hangs_is_left_behind_and_its_rows_too(client: FakeClient) -> None:
    go = threading.Event()
    store = opened(client, seconds=0.2, rest=30.0)
    store.put(KEYS, PAGES)

    def hangs(method: str, _: Sequence[str]) -> None:
        if method == "get":
            go.wait(60.0)

    client.says = hangs
    assert store.get(KEYS) == [None] * 6
    calls = len(client.calls)
    assert store.get(KEYS) == [None] * 6 and store.exists(KEYS) == 0 and store.put(KEYS, PAGES) == [False] * 6
    assert len(client.calls) == calls, "it is left alone"
    ended = threading.Thread(target=store.close)
    ended.start()
    ended.join()
    assert (client.closed, len(client.registered)) == (0, 1), "the client may still write there"
    go.set()
    all_left()
    assert (client.closed, len(client.registered)) == (1, 0)


def test_a_store_that_is_closed_joins_again(store: MooncakeStore, client: FakeClient) -> None:
    store.put(KEYS, PAGES)
    store.close()
    assert client.closed == 1 and store.get(KEYS) == PAGES


def test_what_cant_be() -> None:
    client = FakeClient()
    for wrong in (
        {"seconds": 10.0},
        {"seconds": 0.0},
        {"page_bytes": -1},
        {"lanes": 0},
        {"batch": 0},
        {"prefix": "a*"},
    ):
        with pytest.raises(ValueError, match=r"must be|a prefix"):
            opened(client, **wrong)

    def refuses() -> FakeClient:
        raise ConnectionError("nobody is there")

    with pytest.raises(ConnectionError, match="nobody is there"):
        MooncakeStore(refuses, page_bytes=8)
    client.says = lambda method, _: -1 if method == "register_buffer" else None
    assert opened(client).get(KEYS) == [None] * 6


def test_without_the_client_library_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "mooncake.store", None)
    with pytest.raises(ImportError, match=r"extra 'mooncake'.*libibverbs1"):
        Member(master="127.0.0.1:1")()
