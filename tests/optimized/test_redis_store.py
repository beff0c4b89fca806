"""The networked store: judged by the suite where a server can be started, and what it does when the server can't."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kvlitmus.conformance.adapters.stores import network as network_store
from kvlitmus.conformance.adapters.stores import redis as redis_store
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Options
from kvlitmus.optimized.storage.base import Identity, PageStore

pytest.importorskip("redis", reason="the client library is missing: the extra 'redis' brings it")

from kvlitmus.optimized.storage.redis import RedisStore
from tests.support.processes import LIMIT

KEYS = [f"{number:064x}" for number in range(6)]
PAGES = [bytes([number]) * (100 + number) for number in range(6)]


@pytest.fixture
def url() -> str:
    """A server's."""
    if not os.environ.get(redis_store.VARIABLE) and not any(map(shutil.which, redis_store.SERVERS)):
        pytest.skip("no redis-server or valkey-server is installed")
    return network_store.url_of(redis_store.server())


@pytest.fixture
def store(url: str) -> Iterator[RedisStore]:
    one = RedisStore(url, Identity(model="tests"), prefix=f"kvlitmus-tests:{os.urandom(6).hex()}")
    yield one
    one.clear()
    one.close()


@contextmanager
def deaf() -> Iterator[str]:
    """A server that accepts connections and says nothing but PONG; its url."""
    server = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            held.append(connection)
            connection.settimeout(5)
            words = b""
            while b"PING" not in words:
                words = connection.recv(1 << 16)
                if not words:
                    break
                connection.sendall(b"+OK\r\n" * words.count(b"CLIENT") + b"+PONG\r\n" * words.count(b"PING"))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in held:
            connection.close()
        thread.join(LIMIT)


def test_the_suite_passes(url: str) -> None:
    items = plan.items(plan.STORE_CONFIGS, network_store.target.profile, steps=2 * plan.OPS)
    results = [engine.run_item(network_store.target, item, Options(shrink_trials=0)) for item in items]
    assert [result.error for result in results if result.error] == []
    assert {rule for result in results for finding in result.findings for rule in finding.rules} == set()
    assert [(result.item, result.unexercised) for result in results if result.unexercised] == []
    evaluated = {rule for result in results for rule, times in result.evaluated.items() if times}
    assert {f"STORE-{number:02}" for number in range(1, 20)} - evaluated == {"STORE-15"}, "a server has no yard"


def test_a_planted_fault_shows(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its checksum the store returns what somebody else has changed."""
    from kvlitmus.optimized.storage import redis as module
    from kvlitmus.optimized.storage.record import HEAD

    monkeypatch.setattr(module, "page_in", lambda _, key, record: memoryview(record)[HEAD.size + len(key.encode()) :])
    items = plan.items(plan.STORE_CONFIGS, network_store.target.profile, steps=plan.OPS)
    found = [engine.run_item(network_store.target, item, Options(shrink_trials=0)).findings for item in items]
    assert "STORE-08" in {rule for findings in found for finding in findings for rule in finding.rules}


def test_without_server_or_client_nothing_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(redis_store.VARIABLE, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(Unsupported, match="not run"):
        network_store.target.make(plan.STORE_CONFIGS[0])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Unsupported, match="extra 'redis'"):
        network_store.target.make(plan.STORE_CONFIGS[0])


def test_it_is_a_page_store_whose_batches_are_cut(store: RedisStore) -> None:
    assert isinstance(store, PageStore)
    store.batch_bytes = 3_000  # two pages at once
    assert store.put(KEYS, PAGES) == [True] * 6
    assert store.get(KEYS, None) == PAGES
    assert store.get([KEYS[5], "missing", KEYS[0]], 100) == [None, None, PAGES[0]]
    assert (store.exists(KEYS), store.exists([*KEYS[:2], "missing", KEYS[2]]), store.exists(["", *KEYS])) == (6, 2, 0)
    assert (store.put([], []), store.get([]), store.exists([])) == ([], [], 0)
    assert store.counts() == {"stored": 6, "hit": 7, "miss": 2}
    store.clear()
    assert store.exists(KEYS) == 0


def test_clear_leaves_other_names_alone(url: str, store: RedisStore) -> None:
    odd = RedisStore(url, prefix=store.home + "[*?")
    odd.put(KEYS[:2], PAGES[:2])
    store.put(KEYS, PAGES)
    store.clear()
    assert odd.get(KEYS[:2]) == PAGES[:2]
    odd.clear()
    assert odd.exists(KEYS) == 0
    odd.close()


def test_a_server_that_is_full_or_has_another_type_there_fails_those_pages_alone(url: str, store: RedisStore) -> None:
    store.put(KEYS[:1], PAGES[:1])
    store.client.lpush(store.place_of(KEYS[1]), b"a list")
    assert store.get(KEYS[:2]) == [PAGES[0], None]
    assert store.exists([KEYS[1]]) == 0
    assert store.put(KEYS[1:2], PAGES[1:2]) == [True], "what is no page is replaced"
    if os.environ.get(redis_store.VARIABLE):
        pytest.skip("a server in use is not filled up")
    store.client.config_set("maxmemory", 1)
    try:
        assert store.put(KEYS[:3], PAGES[:3]) == [False] * 3
        assert store.get(KEYS[:3]) == [PAGES[0], PAGES[1], None]
    finally:
        store.client.config_set("maxmemory", 0)
    assert store.put(KEYS[:3], PAGES[:3]) == [True] * 3


def test_a_server_that_does_not_answer_costs_one_wait_and_then_none() -> None:
    with deaf() as url:
        store = RedisStore(url, seconds=0.3, rest=30.0)
        began = time.monotonic()
        assert store.get(KEYS) == [None] * 6
        assert 0.2 < time.monotonic() - began < 5
        began = time.monotonic()
        for _ in range(100):
            assert store.put(KEYS, PAGES) == [False] * 6
            assert store.exists(KEYS) == 0
        assert time.monotonic() - began < 5, "not one wait per call"
        assert store.counts()["unreachable"] == 201
        store.close()


def test_a_server_that_is_gone_and_comes_back(url: str, store: RedisStore) -> None:
    store.put(KEYS, PAGES)
    store.rest = 0.0
    store.client.connection_pool.disconnect()
    assert store.get(KEYS) == PAGES, "a closed connection is made again, and nothing is missed"
    there = store.client.connection_pool.connection_kwargs
    port, there["port"] = there["port"], 1
    store.client.connection_pool.reset()
    assert store.get(KEYS) == [None] * 6
    there["port"] = port
    store.client.connection_pool.reset()
    assert store.get(KEYS) == PAGES


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("http://host", "one of the following schemes"),
        ("redis://127.0.0.1:notaport", "Port could not be cast"),
        ("redis://h/0?decode_responses=True", "pages are bytes"),
    ],
)
def test_a_url_that_cant_be_used_is_refused(wrong: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RedisStore(wrong)


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(ConnectionError, match="can't be used"):
        RedisStore("redis://user:secret@127.0.0.1:1/0", seconds=0.5)


def test_many_threads_use_one_store(store: RedisStore) -> None:
    wrong: list[Any] = []

    def use(at: int) -> None:
        for turn in range(30):
            some = [(at + turn + step) % 6 for step in range(3)]
            if store.put([KEYS[one] for one in some], [PAGES[one] for one in some]) != [True] * 3:
                wrong.append("put")
            if store.get([KEYS[one] for one in some]) != [PAGES[one] for one in some]:
                wrong.append("get")

    threads = [threading.Thread(target=use, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert wrong == []
