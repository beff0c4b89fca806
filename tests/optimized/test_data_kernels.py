"""The kernels: byte for byte in Triton's interpreter, and compiled for a Hopper GPU that need not be there."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kvlitmus.optimized.data import driver, kernels, loaded
from kvlitmus.optimized.data.copies import ENGINES, PageCopy
from kvlitmus.optimized.data.kernels import DEVICE, LINK, Launch, PagedCopy, Signals, compile_sm90, constants
from kvlitmus.optimized.data.layout import Layout, Nest, nest, strides
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.shape import KVShape
from tests.optimized.support import paged
from tests.support.night import by_turns

ROOT = Path(__file__).resolve().parents[2]
triton = pytest.importorskip("triton")
RELEASE = tuple(int(part) for part in triton.__version__.split(".")[:2])

INTERPRETER = pytest.mark.skipif(
    RELEASE < (3, 7) and tuple(int(part) for part in np.__version__.split(".")[:2]) >= (2, 4),
    reason="the interpreter of Triton before 3.7 makes scalars of arrays in a way that numpy 2.4 refuses",
)
LLAMA = KVShape(layers=32, heads=8, head_dim=128, dtype=torch.bfloat16, page_size=64)
LATENT = KVShape(kind="mla", layers=61, head_dim=656, dtype=torch.uint8, page_size=64)


@INTERPRETER
@pytest.mark.parametrize(
    ("page_size", "every"), [(2, 10), *(pytest.param(*case, marks=pytest.mark.nightly) for case in ((1, 5), (2, 1)))]
)
def test_every_byte_in_the_interpreter(page_size: int, every: int) -> None:
    """All pairs of layouts, element types and row sizes; half of the copies by layer, with flags."""
    environment = os.environ | {
        "TRITON_INTERPRET": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("spec", "optimized", ".")),
    }
    command = [sys.executable, "-m", paged.__name__, "--page-sizes", str(page_size), "--every", str(every)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    shapes = len(list(paged.shapes((page_size,))))
    assert json.loads(done.stdout) == {"copies": -(-shapes * len(paged.PAIRS) // every), "units": 5}


def loops(shape: KVShape, one: Layout, other: Layout, *, by_layer: bool) -> Nest:
    """The loops between two pools that are not there."""
    return nest(shape, strides(one, shape, 4096), strides(other, shape, 8192), by_layer=by_layer)


ACCESS = re.compile(
    r"\b(ld\.global[\w.:]*|st\.global[\w.:]*|atom\.[\w.:]*|bar\.sync|[ls][dt]\.(?:shared|local)[\w.:]*)"
)


def accesses(way: Nest, launch: Launch, *, signal: bool = False) -> tuple[list[str], str]:
    """The memory accesses of a compiled kernel in the order of its PTX, and the text."""
    compiled = compile_sm90(way, launch, signal=signal)
    assert compiled.asm["cubin"][:4] == b"\x7fELF"
    text: str = compiled.asm["ptx"]
    assert ".target sm_90a" in text
    return ACCESS.findall(text), text


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What is compiled here is compiled anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv(
            "TRITON_DEFAULT_FP_FUSION", "1"
        )  # Triton 3.9 warns of its default; there is no floating point here
        yield


WIDE = (
    (LLAMA, "page_first_direct", "layer_first", True),
    (LLAMA, "layer_first", "page_first_direct", False),
    (LLAMA, "layer_first", "page_first", False),
    (LLAMA, "page_head", "layer_first", True),
    (LATENT, "page_first", "layer_first", True),
    (LATENT, "layer_first", "page_first_direct", False),
)


@pytest.mark.parametrize(
    ("shape", "one", "other", "by_layer", "launch"),
    by_turns(
        [(*case, launch) for at, case in enumerate(WIDE) for launch in (LINK, DEVICE)[:: 1 - 2 * (at % 2)]], every=2
    ),
)
def test_accesses_are_wide_and_all_loads_come_first(
    shape: KVShape, one: Layout, other: Layout, by_layer: bool, launch: Launch
) -> None:
    """Per thread: its page numbers, then all its 16-byte loads, then as many 16-byte stores; nothing through shared
    memory, no spills.  That is what keeps the link busy (bytes in flight), so it is what must not get lost.
    """
    found, text = accesses(loops(shape, one, other, by_layer=by_layer), launch)
    each = launch.tile // (32 * launch.warps)
    moved = [name for name in found if name != "ld.global.b32"]
    assert moved == ["ld.global.cg.v4.b32"] * each + ["st.global.cs.v4.b32"] * each
    assert found.count("ld.global.b32") == 2 * each
    assert ".local" not in text


def test_a_flag_is_written_after_the_stores_of_all_threads() -> None:
    found, _ = accesses(loops(LLAMA, "page_first_direct", "layer_first", by_layer=True), LINK, signal=True)
    last = max(place for place, name in enumerate(found) if name.startswith("st.global.cs"))
    barrier = found.index("bar.sync", last)
    count = next(place for place, name in enumerate(found) if name.startswith("atom") and ".add" in name)
    reset = next(place for place, name in enumerate(found) if name.startswith("atom") and ".exch" in name)
    flag = next(place for place, name in enumerate(found) if name.startswith("st.global.wt"))
    assert last < barrier < count < reset < flag
    assert "acq_rel" in found[count] and ".gpu" in found[count]
    assert "acq_rel" in found[reset] and ".sys" in found[reset]


def test_no_atomic_goes_over_the_link() -> None:
    """PCIe may have none: both atomics are on the counter, which is the device's; the flag is a store."""
    _, text = accesses(loops(LLAMA, "page_first_direct", "layer_first", by_layer=True), LINK, signal=True)
    addresses = re.findall(r"atom\.[\w.]+ %r\d+, \[ (%rd\d+)", text)
    stores = re.findall(r"st\.global\.wt\.b32 \[ (%rd\d+)", text)
    assert len(addresses) == 2 and len(set(addresses)) == 1
    assert len(stores) == 1 and stores[0] not in addresses


def test_a_loaded_kernel_is_given_its_parameters_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Triton compiled is loaded and started by the driver; Triton's own launcher would be made by a C compiler."""
    way = loops(LLAMA, "page_first_direct", "layer_first", by_layer=True)
    compiled = compile_sm90(way, LINK, signal=True)
    header = compiled.asm["ptx"].partition(".entry")[2].partition(")")[0]
    widths = [int(width) for width in re.findall(r"\.param \.u(32|64)", header)]
    assert widths[:9] == [64] * 4 + [32] * 2 + [64] * 2 + [32] and set(widths[9:]) <= {64} and len(widths) <= 11
    seen: list[tuple[Any, ...]] = []

    def launch(function: int, programs: int, threads: int, shared: int, stream: int, parameters: int) -> None:
        places = (ctypes.c_void_p * len(widths)).from_address(parameters)
        kinds = [ctypes.c_int64 if width == 64 else ctypes.c_int32 for width in widths]
        values = [kind.from_address(place).value for kind, place in zip(kinds, places, strict=True)]
        seen.append((function, programs, threads, shared, stream, values))

    monkeypatch.setattr(driver, "launch", launch)
    monkeypatch.setattr(driver, "load", lambda cubin, name, shared: 77 if cubin == compiled.asm["cubin"] else 0)
    kernel = loaded.LoadedKernel(compiled, tuple(kernels._SIGNATURE.values()))
    given = (1 << 40, (1 << 63) - 16, 3, 4, 5, 6, 7, 8, -9)
    kernel(4, 11, *given)
    assert seen == [(77, 4, 32 * LINK.warps, compiled.metadata.shared, 11, [*given, *[0] * (len(widths) - 9)])]


@pytest.mark.parametrize("kind", ["global_scratch_size", "profile_scratch_size"])
def test_a_kernel_that_needs_scratch_memory_is_refused(kind: str) -> None:
    compiled = SimpleNamespace(metadata=SimpleNamespace(name="copy", **{kind: 64}))
    with pytest.raises(ValueError, match="copy needs scratch memory"):
        loaded.LoadedKernel(compiled, ())


@pytest.mark.parametrize(("head", "unit", "word"), [(24, 8, "v2.b32"), (12, 4, "b32"), (6, 2, "b16"), (3, 1, "b8")])
def test_rows_that_are_not_aligned_have_narrower_accesses(head: int, unit: int, word: str) -> None:
    shape = KVShape(layers=3, heads=3, head_dim=head, dtype=torch.uint8, page_size=3)
    way = loops(shape, "page_head", "layer_first", by_layer=True)
    assert way.unit == unit
    found, _ = accesses(way, Launch(programs=4, warps=4, tile=256))
    assert found.count(f"ld.global.cg.{word}") == found.count(f"st.global.cs.{word}") == 2


def test_constants_are_in_the_order_of_the_kernel() -> None:
    from kvlitmus.optimized.data.jit import paged_copy

    names = list(constants(loops(LLAMA, "page_head", "layer_first", by_layer=True), LINK, signal=False))
    assert paged_copy.arg_names[-len(names) :] == names


def test_what_a_launch_refuses() -> None:
    way = loops(LLAMA, "page_first_direct", "layer_first", by_layer=True)
    plain, saying = PagedCopy(way), PagedCopy(way, signal=True)
    with pytest.raises(ValueError, match="aligned to 16 bytes"):
        plain(8, 16, (0, 0), 1)
    with pytest.raises(ValueError, match="layers must be within"):
        plain(16, 16, (0, 0), 1, lo=3, hi=33)
    for kernel, signals in ((plain, Signals(0, 0, 1)), (saying, None)):
        with pytest.raises(ValueError, match="signals"):
            kernel(16, 16, (0, 0), 1, signals=signals)
    with pytest.raises(ValueError, match="at most"):
        saying(16, 16, (0, 0), saying.most + 1, signals=Signals(0, 0, 1))
    with pytest.raises(ValueError, match="layer by layer"):
        PagedCopy(loops(LLAMA, "layer_first", "page_first", by_layer=False), signal=True)


def test_long_copies_are_split() -> None:
    """Units are counted in 32 bits: beyond, a copy is several launches over the same page tables."""
    way = loops(LLAMA, "layer_first", "page_first_direct", by_layer=False)
    kernel = PagedCopy(way)
    units = LLAMA.page_bytes // 16
    assert kernel.most * units + LINK.programs * LINK.tile < 1 << 31
    launched: list[tuple[int, ...]] = []
    kernel.__dict__["_run"] = lambda *given, stream: launched.append(given)
    count = 2 * kernel.most + 5
    kernel(1 << 20, 1 << 21, (1 << 12, 1 << 13), count)
    assert [given[4] for given in launched] == [kernel.most, kernel.most, 5]
    assert [given[2] - (1 << 12) for given in launched] == [0, 4 * kernel.most, 8 * kernel.most]
    assert {given[:2] for given in launched} == {(1 << 20, 1 << 21)}


@pytest.mark.gpu
@pytest.mark.parametrize("pair", paged.PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_every_byte_on_the_device(pair: tuple[Layout, Layout]) -> None:
    """All engines, both directions and within the device."""
    rng = np.random.default_rng(3)
    for name, shape in paged.shapes((1, 16)):
        device, other = (DevicePool(shape, 7, device="cuda", layout=layout) for layout in pair)
        host = HostPool(shape, 9, layout=pair[1])
        for source, target in ((device, host), (host, device), (device, other)):
            for engine, by_layer in itertools.product(ENGINES, (False, True)):
                if engine == "staged" and (by_layer or target is other or pair[1] == "layer_first"):
                    continue  # whole pages, all layers, over the link
                copy = PageCopy(source, target, engine=engine, by_layer=by_layer)
                lo, hi = (1, 3) if by_layer else (0, 3)

                def copying(some: Any, others: Any, lo: int, hi: int, copy: PageCopy = copy) -> None:
                    copy.now(some, others, lo=lo, hi=hi)

                try:
                    paged.check(source, target, copying, paged.some_pages(rng, source, target, 4), lo=lo, hi=hi)
                except AssertionError as error:
                    raise AssertionError(f"{name}, {engine}, by_layer={by_layer}: {error}") from error
