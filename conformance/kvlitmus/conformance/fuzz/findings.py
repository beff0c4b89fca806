"""Counterexamples on disk: the files that ``kvlitmus replay`` reads, and back from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvlitmus.conformance.beside.moments import filled
from kvlitmus.conformance.fuzz.dedupe import Distinct
from kvlitmus.conformance.fuzz.store import Store
from kvlitmus.conformance.run import failures
from kvlitmus.conformance.run.results import Finding, Options
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.support.version import version
from kvlitmus.spec.parts import all_rules


def save_finding(folder: Path, finding: Finding, target: str, options: Options) -> Path:
    """Save a finding; when this returns, it is on disk.  The same finding gets the same name."""
    return failures.save(
        folder,
        finding,
        target=target,
        depth=options.depth,
        force_misuse=options.force_misuse,
        version=version(),
        lasting=True,
        fill=filled,
    )


def load_findings(store: Store, folder: Path) -> Iterator[tuple[Finding, Path]]:
    """The findings of a folder, the short ones first; a file that can't be read is set aside."""
    yield from store.readable(folder, finding_of)


def finding_of(path: Path) -> Finding:
    """The finding in a file; raises ``FailureError`` or ``ValueError`` for what is none."""
    failure = failures.load(path, follow=False)
    unknown = [rule for rule in failure.rules if rule not in all_rules()]
    if unknown:
        raise ValueError(f"there is no rule {harmless(unknown[0], 40)!r} any more")
    if failures.name_of(failure.header.data) != path.name:
        raise ValueError("its name is not the digest of what is in it: it was torn or changed")
    plain = failure.finding
    seen, after, parted = plain.get("seen", {}), plain.get("after", []), plain.get("parted", [])
    return Finding(
        rules=list(failure.rules),
        item=str(plain.get("item", "")),
        config=failure.config,
        call=str(plain.get("call", "")),
        calls=list(failure.calls),
        allowed=str(plain.get("allowed", "")),
        seen={str(name): str(text) for name, text in seen.items()} if isinstance(seen, dict) else {},
        detail=str(plain.get("detail", "")),
        schedule=list(failure.schedule),
        litmus=failure.litmus,
        steps=len(failure.calls),
        minimal=str(plain.get("minimal", "")),
        not_minimal=str(plain.get("not_minimal", "")),
        after=list(map(str, after)) if isinstance(after, list) else [],
        parted=list(map(str, parted)) if isinstance(parted, list) else [],
        tape=failure.tape,
    )


def retire(store: Store, distinct: Distinct) -> None:
    """A finding does not occur any more: its file is kept, apart."""
    target = store.findings / "gone" / distinct.path.name
    distinct.path.replace(target)
    distinct.path, distinct.gone = target, True
    store.note("gone", rules=distinct.finding.rules, file=target.name)
