"""The few calls of the CUDA driver that torch has no fast way to: batches of copies, values in streams, kernels.

They are found in ``libcuda`` by name when first used; what an older driver lacks is replaced by what all have.  The
calling thread must have a current context.  A call of CUDA's runtime, as torch makes them, gives it one; a thread whose
first call is one of these has none, and is refused: :class:`Context` binds it.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

AddressArray = npt.NDArray[np.uint64]

_IN_STREAM_ORDER = 1  # CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: sources are read after what the stream has done before
_INVALID_VALUE, _NOT_SUPPORTED = 1, 801
_AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ: cyclic, by the sign of the difference
_SHARED_LIMIT = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PLAIN_SHARED = 48 * 1024  # bytes of shared memory that need no leave


_U64, _PTR = ctypes.c_uint64, ctypes.c_void_p


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


class Context:
    """The context of a device that the runtime uses, too; :meth:`bind` makes it the calling thread's.

    device: its number.  The device may be one that nobody has used yet.
    """

    def __init__(self, device: int) -> None:
        made = _U64()
        which = ctypes.c_int()
        _call("cuInit", (ctypes.c_uint,), 0)
        _call("cuDeviceGet", (_PTR, ctypes.c_int), ctypes.addressof(which), device)
        # Never released, as the runtime's own: it ends with the process.
        _call("cuDevicePrimaryCtxRetain", (_PTR, ctypes.c_int), ctypes.addressof(made), which.value)
        self._context = made.value
        self._threads = threading.local()

    def bind(self) -> None:
        """Make it current on this thread.  Only the first call on a thread costs anything."""
        if not getattr(self._threads, "bound", False):
            _call("cuCtxSetCurrent", (_U64,), self._context)
            self._threads.bound = True


def _call(name: str, types: tuple[Any, ...], *given: Any) -> None:
    """Call a function that every driver has."""
    function = _function(name, *types)
    if function is None:
        raise DriverError(f"this CUDA driver has no {name}", name, _NOT_SUPPORTED)
    _check(name, function(*given))


@functools.cache
def context_of(device: int) -> Context:
    """The context of a device, one per process."""
    return Context(device)


def load(cubin: bytes, name: str, shared: int) -> int:
    """Load a compiled kernel into the current context; its handle.  shared: bytes of its shared memory."""
    module, function = _U64(), _U64()
    _call("cuModuleLoadData", (_PTR, ctypes.c_char_p), ctypes.addressof(module), cubin)
    _call("cuModuleGetFunction", (_PTR, _U64, ctypes.c_char_p), ctypes.addressof(function), module.value, name.encode())
    if shared > _PLAIN_SHARED:
        _call("cuFuncSetAttribute", (_U64, ctypes.c_int, ctypes.c_int), function.value, _SHARED_LIMIT, shared)
    return function.value


_LAUNCH = (_U64, *[ctypes.c_uint] * 7, _PTR, _PTR, _PTR)


@functools.cache
def _launch() -> Any:
    return _function("cuLaunchKernel", *_LAUNCH)


def launch(function: int, programs: int, threads: int, shared: int, stream: int, parameters: int) -> None:
    """Start a kernel in the order of the stream.  parameters: address of an array of addresses, one per parameter."""
    if code := _launch()(function, programs, 1, 1, threads, 1, 1, shared, stream, parameters, None):
        _check("cuLaunchKernel", code)


@functools.cache
def _memcpy() -> Any:
    return _function("cuMemcpyAsync", _U64, _U64, ctypes.c_size_t, _PTR)


def copy_async(target: int, source: int, size: int, stream: int) -> None:
    """One copy between any two addresses, in the order of the stream; about 2 us of the caller's time."""
    if code := _memcpy()(target, source, size, stream):
        _check("cuMemcpyAsync", code)


BATCHES = ("cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync")
"""Batches of copies, by CUDA 13's and by CUDA 12.8's signature."""


def has(name: str) -> bool:
    """Whether this driver has a function."""
    return getattr(_library(), name, None) is not None


def copy_batch(targets: AddressArray, sources: AddressArray, sizes: AddressArray, stream: int) -> None:
    """Many copies in one call, without the interpreter's lock; 1 to 3 us each (``cuMemcpyBatchAsync``, CUDA 12.8).

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
    if stream and (newer := _function(BATCHES[0], *types, _PTR)) is not None:
        code = newer(*common, stream)
    elif stream and (older := _function(BATCHES[1], *types, _PTR, _PTR)) is not None:
        failed = ctypes.c_size_t(0)
        code = older(*common, ctypes.addressof(failed), stream)
    if code not in (_INVALID_VALUE, _NOT_SUPPORTED):
        _check("cuMemcpyBatchAsync", code)
        return
    # Some drivers refuse a batch that they would take copy by copy.  What part of it may have been made is made again.
    for target, source, size in zip(*(array.tolist() for array in arrays), strict=True):
        copy_async(target, source, size, stream)


def wait_value(stream: int, address: int, value: int) -> None:
    """Let the stream wait until the int32 at an address of pinned or device memory is at least ``value``.

    *At least* is by the sign of the difference in 32 bits, so that counts may wrap.  Raises :class:`DriverError`, as
    :func:`write_value` does, where a driver or a virtual machine has no such operations.
    """
    _on_value("cuStreamWaitValue32", stream, address, value, _AT_LEAST)


def write_value(stream: int, address: int, value: int) -> None:
    """Write an int32 in the order of the stream, after what the stream has written before."""
    _on_value("cuStreamWriteValue32", stream, address, value, 0)


def _on_value(name: str, stream: int, address: int, value: int, flags: int) -> None:
    types = (_PTR, _U64, ctypes.c_uint32, ctypes.c_uint)
    function = _function(f"{name}_v2", *types) or _function(name, *types)
    if function is None:
        raise DriverError(f"this CUDA driver has no {name}: its streams know no values", name, _NOT_SUPPORTED)
    _check(name, function(stream, address, value & 0xFFFF_FFFF, flags))
