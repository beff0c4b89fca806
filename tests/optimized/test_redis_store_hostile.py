"""The networked store before a server that answers anything, at any pace: it misses, in time, and never raises."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvlitmus.optimized.storage.base import Identity
from kvlitmus.optimized.storage.record import head_of
from tests.optimized.support.fake_redis import Server, bulk, fits, only, serving

pytest.importorskip("redis", reason="the client library is missing: the extra 'redis' brings it")

from kvlitmus.optimized.storage.redis import RedisStore

KEYS = [f"{number:064x}" for number in range(6)]
PAGES = [bytes([number]) * 200 for number in range(6)]
LONG = 40.0
"""How long a call of a patient store would take here at least, in seconds; ours give up far earlier."""

LIMIT = 0.4
GENEROUS = 20.0
"""A call that may take ``LIMIT`` is over by then on the slowest machine."""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as one:
        yield one


@pytest.fixture
def store(server: Server) -> Iterator[RedisStore]:
    one = RedisStore(server.url, rest=0.0, seconds=30.0)
    assert one.put(KEYS[:3], PAGES[:3]) == [True] * 3
    yield one
    one.close()


def test_the_server_serves(server: Server, store: RedisStore) -> None:
    assert store.get(KEYS) == [*PAGES[:3], None, None, None]
    assert store.get(KEYS, 200) == [*PAGES[:3], None, None, None]
    assert store.exists(KEYS) == 3
    assert store.counts() == {"stored": 3, "hit": 6, "miss": 6}
    store.clear()
    assert server.data == {}


# -- odd answers ---------------------------------------------------------------------------------------------------

ODD: dict[str, bytes] = {
    "integer": b":1\r\n",
    "status": b"+OK\r\n",
    "nil": b"$-1\r\n",
    "nil-array": b"*-1\r\n",
    "empty-array": b"*0\r\n",
    "array": b"*2\r\n:1\r\n:2\r\n",
    "error": b"-ERR no\r\n",
    "wrong-type": b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "error-of-no-text": b"-\xff\xfe\x00\r\n",
    "string": b"$5\r\nhello\r\n",
    "empty-string": b"$0\r\n\r\n",
    "long-as-can-be": b"$99999999999999999999999\r\n",
    "length-below-zero": b"$-5\r\n",
    "no-length": b"$abc\r\n",
    "array-of-millions": b"*999999999\r\n",
    "no-count": b"*x\r\n",
    "number-of-many-digits": b":" + b"9" * 5_000 + b"\r\n",
    "no-number": b":one\r\n",
    "deeply-nested": b"*1\r\n" * 20_000,
    "nothing-of-the-kind": b"?what\r\n",
    "a-later-protocol": b"%1\r\n+a\r\n+b\r\n",
    "empty-line": b"\r\n",
    "no-end": b"x" * 100_000,
    "twice": b"$1\r\na\r\n$1\r\nb\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}
COMMANDS = ("GETRANGE", "STRLEN", "SET SCAN", "UNLINK")


@pytest.mark.parametrize("commands", COMMANDS)
@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
def test_an_odd_answer_is_a_miss(server: Server, store: RedisStore, answer: bytes, commands: str) -> None:
    """Whatever the call, nothing is raised and no page is wrong; afterwards the store works as before."""
    store.seconds = store.clear_seconds = LIMIT  # some answers have no end, and the store waits for it
    right: list[bytes | None] = list(PAGES)
    server.odd = only(commands, answer)
    for size in (None, 200):
        got = store.get(KEYS, size)
        assert len(got) == 6
        assert all(one is None or one == page for one, page in zip(got, right, strict=True))
    buffers = [bytearray(200) for _ in KEYS]
    for filled, buffer, page in zip(store.get_into(KEYS, buffers), buffers, PAGES, strict=True):
        assert buffer == (page if filled else bytes(200))
    assert store.exists(KEYS) in range(4)
    assert len(store.put(KEYS, PAGES)) == 6
    store.clear()
    store.seconds = 30.0
    server.odd = lambda _: None
    assert store.put(KEYS, PAGES) == [True] * 6
    assert store.get(KEYS) == PAGES


@pytest.mark.parametrize("bad", [b":7\r\n", b"$-1\r\n", b"*1\r\n:1\r\n", b"-ERR no\r\n"])
def test_one_odd_answer_costs_one_page(server: Server, store: RedisStore, bad: bytes) -> None:
    place = store.place_of(KEYS[1])
    assert place is not None
    server.odd = lambda words: bad if words[0] != b"PING" and words[1:2] == [place.encode()] else None
    assert store.get(KEYS[:3]) == [PAGES[0], None, PAGES[2]]
    assert store.get(KEYS[:3], 200) == [PAGES[0], None, PAGES[2]]
    assert store.put(KEYS[:3], PAGES[:3]) == [True, False, True]
    assert store.exists(KEYS[:3]) == 1


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
def test_an_odd_greeting_is_one_clear_line(server: Server, answer: bytes) -> None:
    server.odd = only("PING", answer)
    said = "the page store's server can't be used: it answered"
    try:
        RedisStore(server.url, seconds=LIMIT).close()
    except ConnectionError as error:
        said = str(error)
    assert said.startswith("the page store's server can't be used: ")
    assert said.isprintable()


# -- sizes ---------------------------------------------------------------------------------------------------------

GIGABYTE = 1 << 30


def endless(words: list[bytes]) -> Iterator[bytes]:
    """A value of a gigabyte, whatever was asked for."""
    yield b"$%d\r\n" % GIGABYTE
    for _ in range(GIGABYTE >> 16):
        yield bytes(1 << 16)


def test_a_huge_value_is_not_read(server: Server, store: RedisStore) -> None:
    """A server that keeps to what it is asked for sends no more than a page; the other pages are there."""
    place = store.place_of(KEYS[1])
    assert place is not None
    server.data[place.encode()] += bytes(64 << 20)
    before = server.sent
    for size in (None, 200):
        assert store.get(KEYS[:3], size) == [PAGES[0], None, PAGES[2]]
    assert store.exists(KEYS[:3]) == 1
    assert server.sent - before < 20_000
    assert store.put(KEYS[:3], PAGES[:3]) == [True] * 3
    assert store.get(KEYS[:3]) == PAGES[:3]


def test_a_header_that_promises_a_huge_page_is_not_believed(server: Server, store: RedisStore) -> None:
    place = store.place_of(KEYS[1])
    assert place is not None
    head = bytearray(head_of(store.identity, KEYS[1], b""))
    head[12:20] = GIGABYTE.to_bytes(8, "little")

    def claims(words: list[bytes]) -> bytes | None:
        if words[:2] == [b"STRLEN", place.encode()]:
            return b":%d\r\n" % (GIGABYTE + len(head))
        return None

    server.data[place.encode()] = bytes(head) + bytes(1 << 20)
    server.odd = claims
    before = server.sent
    assert store.get(KEYS[:3]) == [PAGES[0], None, PAGES[2]]
    assert server.sent - before < 20_000


@pytest.mark.parametrize("size", [None, 200])
def test_who_sends_more_than_was_asked_for_is_hung_up_on(server: Server, store: RedisStore, size: int | None) -> None:
    server.odd = only("GETRANGE", endless)
    before = server.sent
    assert store.get(KEYS[:3], size) == [None] * 3
    assert server.sent - before < 64 << 20, "what the two ends and the system between them hold, not a gigabyte"
    server.odd = lambda _: None
    assert store.get(KEYS[:3], size) == PAGES[:3]


def test_pages_have_a_limit(server: Server) -> None:
    store = RedisStore(server.url, largest=200)
    assert store.put(["a", "b"], [bytes(200), bytes(201)]) == [True, False]
    assert store.get(["a", "b"]) == [bytes(200), None]
    assert store.counts()["refused"] == 1
    RedisStore(server.url).put(["b"], [bytes(201)])
    assert (store.get(["b"]), store.get(["b"], 201), store.exists(["b"])) == ([None], [None], 0)
    store.close()


# -- time ----------------------------------------------------------------------------------------------------------


def dripping(server: Server) -> Callable[[list[bytes]], Iterator[bytes]]:
    """The right answers, of which a byte comes now and then: never long enough apart for a socket's own limit."""

    def answer(words: list[bytes]) -> Iterator[bytes]:
        whole = server.right(words)
        for at in range(len(whole)):
            if server.stop.wait(LIMIT / 4):
                return
            yield whole[at : at + 1]

    return answer


def late(server: Server) -> Callable[[list[bytes]], Iterator[bytes]]:
    """Right answers, each so late that a patient reader of many of them waits long."""

    def answer(words: list[bytes]) -> Iterator[bytes]:
        if not server.stop.wait(LIMIT / 2):
            yield server.right(words)

    return answer


MANY = [f"{number:064x}" for number in range(400)]
CALLS: dict[str, Callable[[RedisStore], Any]] = {
    "get": lambda store: store.get(MANY),
    "get-size": lambda store: store.get(MANY, 200),
    "get_into": lambda store: store.get_into(MANY, [bytearray(200) for _ in MANY]),
    "exists": lambda store: store.exists(MANY),
    "put": lambda store: store.put(MANY, [bytes(200)] * len(MANY)),
    "clear": lambda store: store.clear(),
}


@pytest.mark.parametrize("pace", [dripping, late])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_slow_server_cant_hold_a_call(
    server: Server, store: RedisStore, call: Callable[[RedisStore], Any], pace: Callable[[Server], Any]
) -> None:
    assert 400 * LIMIT / 4 >= LONG, "or a store without a limit of its own would pass"
    store.put(MANY, [bytes(200)] * len(MANY))
    store.seconds = store.clear_seconds = LIMIT
    store.rest = 3_600.0
    server.odd = only("GETRANGE STRLEN SET SCAN UNLINK", pace(server))
    began = time.monotonic()
    call(store)
    assert time.monotonic() - began < GENEROUS


@pytest.mark.parametrize("commands", ["PING", "CLIENT SELECT PING"])
def test_a_slow_greeting_cant_hold_a_call(server: Server, commands: str) -> None:
    """Also when a connection is made: every answer of the handshake is late."""
    slow = b"+" + b"x" * int(LONG * 4 / LIMIT)

    def drip(_: list[bytes]) -> Iterator[bytes]:
        for at in range(len(slow)):
            if server.stop.wait(LIMIT / 4):
                return
            yield slow[at : at + 1]

    server.odd = only(commands, drip)
    began = time.monotonic()
    with pytest.raises(ConnectionError, match="can't be used"):
        RedisStore(server.url, seconds=LIMIT)
    assert time.monotonic() - began < GENEROUS


def test_a_server_that_does_not_read_cant_hold_a_put(server: Server, store: RedisStore) -> None:
    def deaf(_: list[bytes]) -> Iterator[bytes]:
        server.stop.wait(LONG)
        yield b"+OK\r\n"

    server.odd = only("SET", deaf)
    store.seconds = LIMIT
    began = time.monotonic()
    assert store.put(KEYS[3:5], [bytes(100 << 20)] * 2) == [False] * 2
    assert time.monotonic() - began < GENEROUS


def test_a_late_answer_is_nobody_elses(server: Server, store: RedisStore) -> None:
    """After a call ran out of time its answers may still come: the next call doesn't take them for its own."""
    store.seconds = LIMIT
    server.odd = only("SET", late(server))
    store.put(MANY[:20], [bytes(200)] * 20)
    store.seconds = 30.0
    server.odd = only("SET", b"-ERR full\r\n")
    assert store.put(KEYS[3:5], PAGES[3:5]) == [False, False]


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix", ["\\", "a\\b", "a\\", "[", "]", "[a-z]", "[^x]", "*", "?", "a*b?c", "\\*", "^$", "-", "é"]
)
def test_clear_works_whatever_the_prefix_holds(server: Server, prefix: str) -> None:
    mine, other = RedisStore(server.url, prefix=prefix), RedisStore(server.url, prefix="other")
    same = RedisStore(server.url, Identity(model="other"), prefix=prefix)
    for one in (mine, other, same):
        assert one.put(KEYS, PAGES) == [True] * 6
    mine.clear()
    assert (mine.exists(KEYS), other.exists(KEYS), same.exists(KEYS)) == (0, 6, 6)
    assert len(server.data) == 12
    for one in (mine, other, same):
        one.close()


def test_a_server_cant_make_clear_remove_anything_else(server: Server, store: RedisStore) -> None:
    server.data[b"mine"] = b"mine"
    names = [b"mine", store.home.encode() + b"x", *server.data]
    listed = b"*2\r\n$1\r\n0\r\n*%d\r\n%b" % (len(names), b"".join(map(bulk, names)))
    server.odd = only("SCAN", listed)
    store.clear()
    assert server.data == {b"mine": b"mine"}


def test_a_prefix_that_is_no_text_is_refused(server: Server) -> None:
    with pytest.raises(ValueError, match="prefix"):
        RedisStore(server.url, prefix="\ud800")


@pytest.mark.parametrize(
    ("pattern", "name", "fit"),
    [("a*c", "abc", True), (r"a\*c", "abc", False), (r"a\*c", "a*c", True), ("[ab]x", "bx", True), ("?", "", False)],
)
def test_the_servers_patterns(pattern: str, name: str, fit: bool) -> None:
    assert fits(pattern.encode(), name.encode()) is fit
