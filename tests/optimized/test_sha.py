"""Chains of SHA-256 in one compiled loop: bit by bit what hashlib gives, and nothing depends on it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import subprocess
import sys

import pytest

pytest.importorskip("numba")

from kvlitmus.optimized import sha


def by_hand(data: bytes, width: int, before: bytes, tag: bytes) -> bytes:
    found = b""
    for at in range(0, len(data), width):
        before = hashlib.sha256(tag + before + data[at : at + width]).digest()
        found += before
    return found


@pytest.mark.parametrize("width", [4, 24, 55, 56, 64, 96, 256, 1024])
@pytest.mark.parametrize("before", [b"", bytes(range(32)), b"seed"])
@pytest.mark.parametrize("tag", [b"", b"kvp", bytes(16)])
def test_both_ways_give_what_hashlib_gives(width: int, before: bytes, tag: bytes) -> None:
    data = random.Random(width).randbytes(width * 9)
    for pages in range(10):
        some = data[: pages * width]
        assert sha.digests(some, width, before, tag) == by_hand(some, width, before, tag)
        assert sha.plain(some, width, before, tag) == by_hand(some, width, before, tag)
    assert sha.digests(data[:-1], width, before, tag) == by_hand(data[:-1], width, before, tag)


def test_openssl_is_found_where_hashlib_uses_it() -> None:
    assert hashlib.sha256.__module__ == "_hashlib"
    assert sha._chosen() is sha.compiled


def test_without_openssl_it_is_done_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> object:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert sha._chosen() is sha.plain


def test_where_numba_compiles_nothing_it_is_done_in_python() -> None:
    code = "from kvlitmus.optimized import sha; assert sha._chosen() is sha.plain"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"})


def test_a_loop_that_gives_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sha, "compiled", lambda data, width, before, tag: b"")
    assert sha._chosen() is sha.plain


def test_what_openssl_refuses_is_done_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sha, "_chain", lambda *_: 0)
    data = bytes(1024)
    assert sha.compiled(data, 64, b"", b"kvp") == by_hand(data, 64, b"", b"kvp")
