"""A compiled kernel on the device, loaded and started by the driver's own calls.

Triton has a launcher, but makes it with a C compiler at run time, which a machine that only serves need not have.  What
is launched here gets nothing but numbers, so little is lost: a launch is one call of the driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from kvlitmus.optimized.data import driver

_KINDS: dict[str, Any] = {"i64": ctypes.c_int64, "i32": ctypes.c_int32}

_SCRATCH = ("i64", "i64")
"""Triton adds addresses of scratch memory to a kernel's parameters, one or two by its release; unused ones are null.

The driver reads as many parameters as the kernel has.
"""


class LoadedKernel:
    """A kernel in the context that is current when it is made.

    compiled: by :func:`kvlitmus.optimized.data.kernels.compile_for`.  kinds: of its parameters, ``i64`` and ``i32``,
    without what is a constant.  Raises ``ValueError`` for a kernel that needs more than numbers, and
    :class:`~kvlitmus.optimized.data.driver.DriverError` where the device refuses it.
    """

    def __init__(self, compiled: Any, kinds: Sequence[str]) -> None:
        facts = compiled.metadata
        if getattr(facts, "global_scratch_size", 0) or getattr(facts, "profile_scratch_size", 0):
            raise ValueError(f"{facts.name} needs scratch memory, which nothing here allocates")
        self._threads = 32 * facts.num_warps
        self._shared: int = facts.shared
        self._function = driver.load(compiled.asm["cubin"], facts.name, facts.shared)
        fields = [(f"at_{place}", _KINDS[kind]) for place, kind in enumerate((*kinds, *_SCRATCH))]
        self._values = type("Values", (ctypes.Structure,), {"_fields_": fields})
        self._places = [getattr(self._values, name).offset for name, _ in fields]
        self._pointers = ctypes.c_void_p * len(fields)

    def __call__(self, programs: int, stream: int, *given: int) -> None:
        """Start so many programs in the order of a raw stream; the driver has read ``given`` when this returns."""
        values = self._values(*given)
        start = ctypes.addressof(values)
        pointers = self._pointers(*[start + place for place in self._places])
        driver.launch(self._function, programs, self._threads, self._shared, stream, ctypes.addressof(pointers))
