"""The few calls of the CUDA driver that torch has no fast way to: batches of copies, and streams that wait for a value.

They are found in ``libcuda`` by name when first used; what an older driver lacks is replaced by what all have.  The
calling thread must have a current context (torch gives it one as soon as it has used the device on this thread).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

AddressArray = npt.NDArray[np.uint64]

_IN_STREAM_ORDER = 1  # CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: sources are read after what the stream has done before
_INVALID_VALUE, _NOT_SUPPORTED = 1, 801
_AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Attributes(ctypes.Structure):
    """CUmemcpyAttributes."""

    _fields_ = (
        ("order", ctypes.c_int),
        ("source", _Location),
        ("target", _Location),
        ("flags", ctypes.c_uint),
    )


class DriverError(RuntimeError):
    """A call of the CUDA driver failed.  ``args``: the message, the name of the call, the code."""


def _check(name: str, code: int) -> None:
    if code:
        raise DriverError(f"{name} failed with CUDA error {code}", name, code)


@functools.cache
def _library() -> Any:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def _function(name: str, *types: Any) -> Any:
    """A function of the driver, or ``None`` where it hasn't got it."""
    function = getattr(_library(), name, None)
    if function is not None:
        function.argtypes = types
        function.restype = ctypes.c_int
    return function


_U64, _PTR = ctypes.c_uint64, ctypes.c_void_p


@functools.cache
def _memcpy() -> Any:
    return _function("cuMemcpyAsync", _U64, _U64, ctypes.c_size_t, _PTR)


def copy_async(target: int, source: int, size: int, stream: int) -> None:
    """One copy between any two addresses, in the order of the stream; about 2 us of the caller's time."""
    if code := _memcpy()(target, source, size, stream):
        _check("cuMemcpyAsync", code)


def copy_batch(targets: AddressArray, sources: AddressArray, sizes: AddressArray, stream: int) -> None:
    """Many copies in one call, without the interpreter's lock; about 0.5 us each (``cuMemcpyBatchAsync``, CUDA 12.8).

    The copies of a batch run in any order among themselves.  With an older driver, one call per copy.  ``stream``
    must not be the legacy default stream.
    """
    count = len(targets)
    if not count:
        return
    arrays = [np.ascontiguousarray(array, np.uint64) for array in (targets, sources, sizes)]
    pointers = [array.ctypes.data for array in arrays]
    order, which = _Attributes(order=_IN_STREAM_ORDER), ctypes.c_size_t(0)
    common = (*pointers, count, ctypes.addressof(order), ctypes.addressof(which), 1)
    types = (_PTR, _PTR, _PTR, ctypes.c_size_t, _PTR, _PTR, ctypes.c_size_t)
    code = _NOT_SUPPORTED
    if stream and (newer := _function("cuMemcpyBatchAsync_v2", *types, _PTR)) is not None:
        code = newer(*common, stream)
    elif stream and (older := _function("cuMemcpyBatchAsync", *types, _PTR, _PTR)) is not None:
        failed = ctypes.c_size_t(0)
        code = older(*common, ctypes.addressof(failed), stream)
    if code not in (_INVALID_VALUE, _NOT_SUPPORTED):
        _check("cuMemcpyBatchAsync", code)
        return
    # Some drivers refuse a batch that they would take copy by copy.  What part of it may have been made is made again.
    for target, source, size in zip(*(array.tolist() for array in arrays), strict=True):
        copy_async(target, source, size, stream)


def wait_value(stream: int, address: int, value: int) -> None:
    """Let the stream wait until the int32 at an address of pinned or device memory is at least ``value``."""
    function = _function("cuStreamWaitValue32_v2", _PTR, _U64, ctypes.c_uint32, ctypes.c_uint)
    if function is None:
        function = _function("cuStreamWaitValue32", _PTR, _U64, ctypes.c_uint32, ctypes.c_uint)
    if function is None:
        raise DriverError("this CUDA driver can't let a stream wait for a value", "cuStreamWaitValue32", 801)
    _check("cuStreamWaitValue32", function(stream, address, value, _AT_LEAST))
