"""What a run is told as: a table to read."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.stage import Record
from benchmarks.record import verdicts

KIB = 1024


def chunk_name(chunk: int) -> str:
    """A chunk size as one says it."""
    if chunk >= 1 << 20:
        return f"{chunk / (1 << 20):g} MiB"
    return f"{chunk / KIB:g} KiB" if chunk >= KIB else f"{chunk} B"


def report(record: Record) -> str:
    """Checks, ceilings, rows and goals, as text."""
    head = record.head
    lines = [f"kvlitmus on {head.get('device', '?')}, {head.get('date', '?')}, {_versions(head)}", ""]
    if head.get("dry"):
        lines += ["DRY RUN on CPU tensors of tiny sizes: no figure below means anything", ""]
    lines += _stages(record)
    for table in (_checks, _ceilings, _transfers, _baselines, _choice, _quota, _rest):
        try:
            lines += table(record)
        except Exception as error:  # noqa: BLE001  a row that nobody expected costs its table, not the others
            lines += [f"{table.__name__.strip('_')} can't be shown: {type(error).__name__}: {error}", ""]
    lines += ["", verdicts(record.goals)]
    bad = [one for one in record.stages if one["outcome"] != "ok"]
    lines += ["", f"{len(record.stages) - len(bad)} of {len(record.stages)} stages are ok"]
    lines += [f"  {one['stage']}: {one['outcome']}, {one['note']}" for one in bad]
    return "\n".join(lines)


def _stages(record: Record) -> list[str]:
    lines = [f"missing: {line}" for line in record.head.get("missing", [])]
    lines += ["stage                           outcome      seconds  reason"]
    lines += [
        f"  {one['stage']:28}  {one['outcome']:11} {one['seconds']:8.1f}  {one['note'][:160]}".rstrip()
        for one in record.stages
    ]
    return [*lines, ""]


def _share(row: dict[str, Any]) -> str:
    """Its share of the ceiling, where there is one."""
    return f"{row['share']:12.1%}" if row.get("share") is not None else f"{'-':>12}"


def _versions(head: dict[str, Any]) -> str:
    torch, triton, python = (head.get("versions", {}).get(name, "?") for name in ("torch", "triton", "python"))
    return f"torch {torch}, triton {triton}, Python {python}"


def _checks(record: Record) -> list[str]:
    lines = ["correctness                                                     cases   wrong"]
    for one in record.checks:
        lines.append(f"  {one['check']:58} {one['cases']:8,} {one['wrong_cases']:7,}  {one['note']}")
        lines += [f"      WRONG {case}" for case in one["wrong"][:5]]
    return [*lines, ""]


def _ceilings(record: Record) -> list[str]:
    lines = ["ceiling (GB/s of payload)     median    best   worst"]
    lines += [
        f"  {row['name'] + ' ' + row['moment']:26} {row['gb_s']:8.2f} {row['best_gb_s']:7.2f} {row['worst_gb_s']:7.2f}"
        for row in record.of("ceilings")
    ]
    return [*lines, ""]


def _transfers(record: Record) -> list[str]:
    lines = ["transfer, random pages                  way        GB/s   share of ceiling   GB moved"]
    for row in [*record.of("transfers"), *record.of("on device"), *record.of("both ways")]:
        if "gb_s" not in row:
            lines.append(f"  {row['name']:38} {row.get('way', ''):8} {row.get('note', '')}")
            continue
        lines.append(
            f"  {row['name']:38} {row.get('way', ''):8} {row['gb_s']:8.2f} {_share(row)}{row['bytes'] / 1e9:16.3f}"
        )
    return [*lines, ""]


def _baselines(record: Record) -> list[str]:
    lines = ["the same chunks, moved otherwise            GB/s"]
    for row in record.of("baselines"):
        name = f"{row['direction']} {chunk_name(row['chunk'])}, {row['way']}"
        lines.append(f"  {name:38} {row['gb_s']:9.2f}" if "gb_s" in row else f"  {name:38} {row['note']}")
    return [*lines, ""]


def _choice(record: Record) -> list[str]:
    lines = ["kernel and copy engine by chunk size       way          GB/s"]
    for row in record.of("choice"):
        said = f"{row['way']:8} {row['gb_s']:10.2f}" if "gb_s" in row else row["note"]
        lines.append(f"  {row['name']:40} {said}{'' if row.get('exact', True) else '  NOT EXACT'}")
    lines += [f"  tried for {row}: {ways}" for row, ways in record.head.get("measured", {}).items()]
    return [*lines, f"  the copy engine is never slower from these bytes on: {record.head.get('choice', {})}", ""]


def _quota(record: Record) -> list[str]:
    lines = ["blocks of the kernel                        GB/s   matmul slowed by"]
    for row in record.of("quota"):
        if "gb_s" not in row:
            lines.append(f"  {row['name']:38} {row['note']}")
            continue
        slowed = f"{row['slowed']:8.1%}" if row.get("slowed") is not None else "       -"
        lines.append(f"  {row['name']:38} {row['gb_s']:9.2f} {slowed}")
    return [*lines, ""]


def _rest(record: Record) -> list[str]:
    lines = ["small loads, submission, layers, interference"]
    tables = ("small loads", "submission", "layers", "interference")
    for row in [row for table in tables for row in record.of(table)]:
        facts = ", ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items()
            if key not in ("table", "name", "seconds")
        )
        lines.append(f"  {row['name']}: {facts}")
    return lines
