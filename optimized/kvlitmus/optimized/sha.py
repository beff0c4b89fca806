"""Chains of SHA-256 digests, where OpenSSL can be reached from compiled code, and in plain Python where it can't.

A page of 64 tokens is 256 bytes, which a CPU with instructions for SHA-256 hashes in a fifth of a microsecond; making
two objects of Python for it takes twice that.  Python's own ``_hashlib`` is an extension that links OpenSSL's library,
and what it links can be looked up through it: where the three functions below are there, and give what ``hashlib``
gives, whole chains are hashed in one compiled loop.  Nothing depends on it: ``hashlib`` does the same, page by page.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np
from numba import types

from kvlitmus.optimized.jit import jitted

DIGEST_BYTES = 32
CONTEXT_BYTES = 128
"""Room for OpenSSL's ``SHA256_CTX``, which has 112."""

FEW = 4
"""For fewer pages than this the call into compiled code costs more than it saves."""

Digests = Callable[[bytes, int, bytes, bytes], bytes]

_NAMES = ("SHA256_Init", "SHA256_Update", "SHA256_Final")
_init: Any = types.ExternalFunction(_NAMES[0], types.int32(types.uintp))
_update: Any = types.ExternalFunction(_NAMES[1], types.int32(types.uintp, types.uintp, types.uintp))
_final: Any = types.ExternalFunction(_NAMES[2], types.int32(types.uintp, types.uintp))


def plain(data: bytes, width: int, before: bytes, tag: bytes) -> bytes:
    """The digests of pages of ``width`` bytes each, one after the other; the first follows the digest ``before``."""
    digests = []
    for at in range(0, len(data), width):
        before = sha256(tag + before + data[at : at + width]).digest()
        digests.append(before)
    return b"".join(digests)


@jitted
def _chain(data: Any, width: int, tag: Any, before: Any, contexts: Any, digests: Any) -> int:
    """Fill ``digests``; 1, or 0 where OpenSSL refused.

    ``contexts``: room for two.  The second takes in the tag once, and the first begins each page as its copy: a context
    is plain memory, and may be copied like that.
    """
    at = contexts.ctypes.data
    tagged = at + contexts.itemsize * contexts.shape[1]
    to = digests.ctypes.data
    page = data.ctypes.data
    good: int = _init(tagged)
    if len(tag):
        good &= _update(tagged, tag.ctypes.data, len(tag))
    for k in range(len(data) // width):
        contexts[0] = contexts[1]
        if k:
            good &= _update(at, to + DIGEST_BYTES * (k - 1), DIGEST_BYTES)
        elif len(before):
            good &= _update(at, before.ctypes.data, len(before))
        good &= _update(at, page + k * width, width)
        good &= _final(to + DIGEST_BYTES * k, at)
    return good


def compiled(data: bytes, width: int, before: bytes, tag: bytes) -> bytes:
    """The same in one compiled loop."""
    if len(data) < FEW * width or len(data) % width:
        return plain(data, width, before, tag)
    digests = np.empty(len(data) // width * DIGEST_BYTES, np.uint8)
    contexts = np.empty((2, CONTEXT_BYTES // 8), np.uint64)  # of whole words, so that they are aligned for OpenSSL
    arrays = [np.frombuffer(one, np.uint8) for one in (data, tag, before)]
    good = _chain(arrays[0], width, arrays[1], arrays[2], contexts, digests)
    return digests.tobytes() if good else plain(data, width, before, tag)


def _chosen() -> Digests:
    """The compiled loop where OpenSSL is there and both give the same, else the plain one."""
    try:
        llvm: Any = importlib.import_module("llvmlite.binding")
        library = ctypes.CDLL(importlib.import_module("_hashlib").__file__)
        for name in _NAMES:
            llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
        data = bytes(range(256)) * FEW
        same = all(
            compiled(data, 128, before, tag) == plain(data, 128, before, tag)
            for before in (b"", data[:DIGEST_BYTES])
            for tag in (b"", b"tag")
        )
    except (ImportError, OSError, AttributeError, NotImplementedError):  # the last where numba compiles nothing
        return plain
    return compiled if same else plain


_digests: Digests | None = None


def digests(data: bytes, width: int, before: bytes, tag: bytes) -> bytes:
    """The digests of pages of ``width`` bytes each, 32 bytes each; the first page follows the digest ``before``.

    What is hashed begins with ``tag``.  The last page may be shorter.
    """
    global _digests  # noqa: PLW0603 - found out at the first use, for compiling takes a moment
    if _digests is None:
        _digests = _chosen()
    return _digests(data, width, before, tag)
