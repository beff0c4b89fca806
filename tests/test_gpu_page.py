"""What docs/gpu.md says that a GPU did is what the records say: each figure is made of them here, and none is besides.

Whoever replaces a record runs this, and puts into the page what it asks for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("torch")

from kvlitmus.optimized.data.copies import DECLARED
from kvlitmus.optimized.data.staged import PARTS, PIECE
from tests.test_layout import ROOT

RESULTS = ROOT / "benchmarks" / "results"
FULL, TABLE = (json.loads((RESULTS / f"gpu-2026-11-27{which}.json").read_text()) for which in ("", "-table"))
BOTH = (FULL, TABLE)


def section() -> str:
    """The page's first words and its last section, on one line."""
    page = (ROOT / "docs" / "gpu.md").read_text()
    said = page[: page.index("It needs no GPU")] + page[page.index("## What an H100 said") :]
    return " ".join(said.split())


# -- the records -----------------------------------------------------------------------------------------------------


def rows(records: Iterable[dict[str, Any]], table: str, **wanted: Any) -> list[dict[str, Any]]:
    """The rows of a table that are so."""
    return [
        row
        for record in records
        for row in record["rows"]
        if row["table"] == table and all(row.get(name) == value for name, value in wanted.items())
    ]


def goal(row: str) -> dict[str, Any]:
    """What was wanted of a row, and measured, in the second record."""
    (found,) = [one for one in TABLE["goals"] if one["row"] == row]
    return dict(found)


def of(found: list[dict[str, Any]], field: str) -> list[float]:
    """This of each of these rows, as far as it was measured."""
    assert found, f"no row has {field}"
    return [row[field] for row in found if row.get(field) is not None]


def span(values: list[float], digits: int = 0) -> str:
    """From the least to the most."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def outcome(record: dict[str, Any]) -> str:
    """How many stages were as they should be."""
    fine = [stage for stage in record["stages"] if stage["outcome"] == "ok"]
    return f"{len(fine)} of {len(record['stages'])} ok"


# -- what is said ----------------------------------------------------------------------------------------------------


def machine() -> str:
    versions = TABLE["versions"]
    release = {name: ".".join(versions[name].split(".")[:2]) for name in ("torch", "triton")}
    driver = TABLE["driver"]
    assert {record["device"] for record in BOTH} == {"NVIDIA H100 80GB HBM3"}
    return (
        f"an H100 (80 GB, PCIe {driver['pcie.link.gen.max']}, driver {driver['driver_version'][:7]}, CUDA "
        f"{versions['cuda']}, torch {release['torch']}, Triton {release['triton']}), on {FULL['date']}"
    )


def hung_tests() -> str:
    (stage,) = [one for one in FULL["stages"] if one["outcome"] == "hung"]
    passed = sum(map(len, re.findall(r"^(\.+) *\[", stage["output"], re.MULTILINE)))
    return f"{outcome(FULL)}; all {passed} tests marked `gpu` had passed when their {stage['seconds']:.0f} s were over"


def passed_tests() -> str:
    (stage,) = [one for one in TABLE["stages"] if one["stage"] == "tests marked gpu"]
    return f"{outcome(TABLE)}, the tests among them, in {stage['seconds']:.0f} s"


def nothing_wrong() -> str:
    cases = {check["check"]: check["cases"] for record in BOTH for check in record["checks"]}
    assert not any(check["wrong_cases"] for record in BOTH for check in record["checks"])
    (pairs,) = [many for name, many in cases.items() if name.startswith("layout pairs")]
    streams = ("a backup waits", "a load waits", "layers that", "dropped", "cancelled", "both ways at once")
    attempts = sum(many for name, many in cases.items() if name.startswith(streams))
    return f"{pairs} pairs of layouts, {attempts} attempts with late, dropped and cancelled transfers"


def few_blocks() -> str:
    few, many = (
        rows([FULL], "quota", direction="d2h", chunk=128 * 1024, blocks=blocks, warps=warps, tile=tile)
        for blocks, warps, tile in ((3, 8, 1024), (4, 32, 4096))
    )
    assert "16 KiB each" in few[0]["name"] and "64 KiB each" in many[0]["name"]
    return (
        f"3 blocks with 16 KiB under way each write as fast as 4 with 64 KiB ({few[0]['gb_s']:.1f} and "
        f"{many[0]['gb_s']:.1f} GB/s in chunks of 128 KiB)"
    )


def beside_a_backup() -> str:
    slowed = of(rows(BOTH, "interference", name="d2h 32 KiB beside matmul", engine="kernel"), "slowed")
    return f"a product beside it takes {span([1 + one for one in slowed], 2)} times as long"


def both_ways() -> str:
    return f"both directions at once move {span(of(rows(BOTH, 'both ways'), 'gb_s'))} GB/s"


def declared() -> str:
    return (
        f"Loads go by kernel below {DECLARED.to_device >> 10} KiB, backups below {DECLARED.to_host >> 10} KiB; backups "
        f"of pages of {DECLARED.staged >> 20} MiB and more are staged"
    )


def beside_a_staged_backup() -> str:
    slowed = of(rows(BOTH, "interference", engine="staged"), "slowed")
    return (
        f"beside which a product takes {span([1 + one for one in slowed], 2)} times as long; it costs "
        f"{PIECE * PARTS >> 20} MiB of the device"
    )


def shares(direction: str) -> str:
    sizes = ("whole pages of 8 MiB", "128 KiB", "32 KiB", "8 KiB")
    found, wanted = [], []
    for size in sizes:
        (row,) = rows([TABLE], "transfers", name=f"{direction} {size}", used=True)
        one = goal(f"{direction} {size}, share of the copy engine")
        found.append(f"{row['gb_s']:.1f} ({100 * one['measured']:.0f} %)")
        wanted.append(marked(one, f"{100 * float(one['wanted'].split()[1]):.0f}"))
    return f"| {' / '.join(found)} | {' / '.join(wanted)} % |"


def marked(one: dict[str, Any], text: str) -> str:
    """Goals that are met are bold."""
    return f"**{text}**" if one["met"] else text


def table_both() -> str:
    found = [goal(f"both ways at once, {size}, times one way") for size in ("whole pages of 8 MiB", "32 KiB")]
    assert not any(one["met"] for one in found)
    return f"| {found[0]['measured']:.2f} / {found[1]['measured']:.2f} | 1.5 |"


def table_within() -> str:
    names = ("gather and scatter", "relayout to pages first", "relayout to layers first")
    found = [goal(f"{name}, 16 KiB, share of a device copy") for name in names]
    assert all(one["met"] for one in found)
    shares = [f"{100 * one['measured']:.0f}" for one in found]
    return f"| {' / '.join(shares)} % | **85** % |"


def table_product() -> str:
    load = goal("slow-down of a concurrent large matmul")["measured"]
    (kernel,) = of(rows([TABLE], "interference", name="d2h 32 KiB beside matmul"), "slowed")
    (staged,) = of(rows([TABLE], "interference", engine="staged"), "slowed")
    return f"| ×{1 + load:.2f} / ×{1 + kernel:.2f} / ×{1 + staged:.2f} | 1.03 |"


def submitted(chunks: str, pages: int) -> list[float]:
    found = [row for row in rows([TABLE], "submission", pages=pages) if f", {chunks}, host" in row["name"]]
    return of(found, "median_us")


def table_submission() -> str:
    return f"| {span(submitted('small chunks', 1))} / {span(submitted('small chunks', 8192))} µs | 20 |"


def table_long_submission() -> str:
    one, many = submitted("chunks of 128 KiB", 1), submitted("chunks of 128 KiB", 1024)
    return f"| {span(one)} / {span(many)} µs | 20 |"


def table_layers() -> str:
    found = rows([TABLE], "layers", used=True)
    first = [row["first_ms"] / (row["one_shot_ms"] / row["layers"]) for row in found]
    ends = [goal(f"all layers against one shot, {size}") for size in ("whole pages of 8 MiB", "32 KiB")]
    assert all(one["met"] for one in ends)
    least = " / ".join(f"{one:.2f}" for one in first)
    last = " / ".join(f"**{one['measured']:.2f}**" for one in ends)
    return f"| {least} of its share; {last} | 1.2 (+20 µs); **1.03** |"


def goals_met() -> str:
    assert TABLE["goals_met"] == sum(one["met"] for one in TABLE["goals"])
    return f"Goals in bold are met; in all {TABLE['goals_met']} of {TABLE['goals_measured']} are."


def reading_the_host() -> str:
    own = rows([FULL], "quota", direction="h2d") + rows(BOTH, "transfers", direction="h2d", way="kernel")
    others = [row for row in rows([FULL], "baselines", direction="h2d") if row["way"] in ("register", "simple")]
    engine = max(of(rows(BOTH, "ceilings", name="h2d"), "best_gb_s"))
    most, other = max(of(own, "gb_s")), max(of(others, "gb_s"))
    return (
        f"A kernel that loads through registers reads the host at {most:.1f} GB/s at most, with any number of blocks, "
        f"and every other kernel that was measured at {other:.1f}: {100 * most / engine:.0f} % of what the copy engine "
        "does"
    )


def the_engine_itself() -> str:
    (row,) = rows([TABLE], "transfers", name="h2d whole pages of 8 MiB", way="dma")
    return f"`dma` made {100 * row['share']:.0f} % with whole pages"


def beside_a_load() -> str:
    loads = [row for row in rows(BOTH, "interference", engine="kernel") if row["name"].startswith("h2d")]
    blocks = {many: of(rows([FULL], "quota", direction="h2d", blocks=many, tile=4096), "slowed") for many in (2, 8, 16)}
    few = [*of(loads, "slowed"), *blocks[2], *blocks[8]]
    return (
        f"loses {min(few) * 100:.0f} to {max(few) * 100:.0f} % beside a kernel that loads, with two blocks as with "
        f"eight, and {blocks[16][0] * 100:.0f} % with 16"
    )


def submitting_one() -> str:
    found = rows(BOTH, "submission", pages=1, engine="kernel")
    return f"Submitting one page by kernel takes {span(of(found, 'best_us'))} µs at its best, by host and run"


def plain_kernel() -> str:
    found = rows([FULL], "baselines", way="simple")
    long = [row["gb_s"] for row in found if row["chunk"] >= 32 * 1024]
    (short,) = of([row for row in found if row["chunk"] == 8 * 1024 and row["direction"] == "h2d"], "gb_s")
    return (
        f"moves {span(long, 1)} GB/s in the same run in chunks of 32 and 128 KiB, as fast as ours or faster, and "
        f"{short:.1f} in chunks of 8 KiB"
    )


SAID = (
    *(machine, hung_tests, passed_tests, nothing_wrong, few_blocks, beside_a_backup, both_ways, declared),
    *(beside_a_staged_backup, table_both, table_within, table_product, table_submission, table_long_submission),
    *(table_layers, goals_met, reading_the_host, the_engine_itself, beside_a_load, submitting_one, plain_kernel),
)
WORDS = (
    *("H100", "#what-an-h100-said", "gpu-2026-11-27.json", "gpu-2026-11-27-table.json", "records of 2026-11-27"),
    *("whole pages / 128 KiB / 32 KiB / 8 KiB", "whole pages / 32 KiB, times one way", "8192³", "8,192 pages"),
    *("in chunks of 128 KiB, one page / 1,024 pages", "1 GiB, whole pages / 32 KiB", "goals of 95 and 97 %"),
)
"""Numbers that no record has: names, and what was measured."""


@pytest.mark.parametrize("said", SAID, ids=lambda said: said.__name__)
def test_the_page_says_what_the_record_says(said: Any) -> None:
    assert said() in section()


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_the_table_says_what_the_record_says(direction: str) -> None:
    assert shares(direction) in section()


def left_over(said: str) -> list[str]:
    """The figures that no record answers for."""
    for known in sorted((*(one() for one in SAID), shares("h2d"), shares("d2h"), *WORDS), key=len, reverse=True):
        said = said.replace(known, "")
    return re.findall(r"\S*\d\S*", said)


def test_the_page_has_no_other_figure() -> None:
    assert [word for word in WORDS if word not in section()] == []
    assert left_over(section()) == []
    assert left_over(section() + " With one block it moves 87 GB/s.") == ["87"]
