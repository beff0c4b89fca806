"""Files that can't be read or written: each command says which, what was wanted, and the system's reason."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.support import files
from tests.conformance.support.command_line import Capture
from tests.conformance.support.reports import report
from tests.support.denied import no_override

READING: Mapping[str, tuple[str, str]] = {
    "replay FILE": ("FILE", "a saved failure, or a folder of them|a file that can be read"),
    "check FILE": ("FILE", "a file that can be read"),
    "check --events FILE": ("FILE", "a file that can be read"),
    "report FILE": ("FILE", "a file that can be read"),
    "diff FILE FILE": ("FILE", "a file that can be read"),
    "promote FILE": ("FILE", "a file that can be read"),
    "merge FILE": ("FILE", "a folder with shards"),
    "compare specimen specimen --tape FILE": ("FILE", "a file that can be read"),
    "run --baseline FILE": ("baseline FILE", "a file that can be read"),
    "fuzz --baseline FILE": ("baseline FILE", "a file that can be read"),
    "run --vectors FILE": ("--vectors FILE", "a folder with vectors"),
}
"""Commands that read a file, what they call it, and what they want."""

UNREADABLE: Mapping[str, int] = {
    "nowhere.jsonl": errno.ENOENT,
    "locked/r.jsonl": errno.EACCES,
    "file/r.jsonl": errno.ENOTDIR,
    "loop.jsonl": errno.ELOOP,
    f"{'x' * 300}.jsonl": errno.ENAMETOOLONG,
}
"""Files that nobody can read, and why."""

WRITING = (
    *(f"run {option} FILE" for option in ("--report", "--junit", "--markdown", "--record", "--write-baseline")),
    *(f"fuzz {option} FILE" for option in ("--report", "--issue")),
    *(f"merge shards {option} FILE" for option in ("--report", "--junit", "--markdown", "--write-baseline")),
    "replay failure.jsonl --html FILE",
    *(f"report r.json {option} FILE" for option in ("--junit", "--markdown")),
    "compare specimen reference --json FILE",
)
"""Commands that write a file; all refuse what they can't write before they start or read anything more."""

UNWRITABLE: Mapping[str, str] = {
    "folder.json": "it is a folder, which would be replaced",
    "link.json": "it is a link, which would be replaced",
    "locked/r.json": os.strerror(errno.EACCES),
    "locked/more/r.json": os.strerror(errno.EACCES),
    "readonly/r.json": os.strerror(errno.EACCES),
    "readonly/more/r.json": os.strerror(errno.EACCES),
    "file/r.json": os.strerror(errno.ENOTDIR),
    "file/more/r.json": os.strerror(errno.ENOTDIR),
    f"{'x' * 300}.json": os.strerror(errno.ENAMETOOLONG),
}
"""Files that nobody can write, and why."""


@pytest.fixture(autouse=True)
def _files_of_all_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name, mode in (("locked", 0), ("readonly", 0o555), ("folder.json", 0o755), ("shards", 0o755)):
        Path(name).mkdir()
        Path(name).chmod(mode)
    Path("file").write_text("")
    Path("loop.jsonl").symlink_to("loop.jsonl")
    Path("link.json").symlink_to("file")
    yield
    (tmp_path / "locked").chmod(0o755)


def refused(words: str, file: str, capsys: Capture) -> str:
    """What a command says of a file."""
    with no_override():
        assert main([file if word == "FILE" else word for word in words.split()]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and err.startswith("kvlitmus: ") and not out
    return err.removeprefix("kvlitmus: ").rstrip()


@pytest.mark.parametrize("command", READING)
def test_what_can_not_be_read_is_told_with_what_was_wanted_and_why(command: str, capsys: Capture) -> None:
    called, wanted = READING[command]
    for file, number in UNREADABLE.items():
        said = refused(command, file, capsys)
        choices = [
            f"{called.replace('FILE', file)}: expected {one}, got {os.strerror(number)}" for one in wanted.split("|")
        ]
        assert said in choices


@pytest.mark.parametrize("command", ["replay FILE", "merge FILE", "run --vectors FILE"])
def test_a_folder_that_can_not_be_read_is_not_called_empty(command: str, capsys: Capture) -> None:
    said = refused(command, "locked", capsys)
    assert "locked: expected a" in said and said.endswith(f"got {os.strerror(errno.EACCES)}")


@pytest.mark.parametrize("command", WRITING)
def test_what_can_not_be_written_is_refused_before_anything_is_done(command: str, capsys: Capture) -> None:
    for file, why in UNWRITABLE.items():
        option = command.split()[-2]
        assert refused(command, file, capsys) == f"{option} {file}: can't be written: {why}"


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("report r.json --junit r.xml", "--junit r.xml"),
        ("report r.json --markdown r.md", "--markdown r.md"),
        ("init-adapter mine.py --force", "mine.py"),
        ("init-adapter --lang go --force mine", "mine/cache.go"),
    ],
)
def test_a_disk_that_is_full_is_told(
    command: str, where: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("r.json").write_text(json.dumps(report()))
    monkeypatch.setattr(files, "write", full)
    assert main(command.split()) == 2
    assert capsys.readouterr().err == f"kvlitmus: {where}: can't be written: {os.strerror(errno.ENOSPC)}\n"


@pytest.mark.parametrize("command", ["run", "smoke", "fuzz"])
def test_a_target_that_can_not_be_seen_is_told(command: str, capsys: Capture) -> None:
    why = os.strerror(errno.EACCES)
    assert refused(f"{command} FILE", "locked/cache.py", capsys) == (
        f"locked/cache.py: expected a file that can be read, got {why}"
    )
    assert refused(f"{command} FILE", "exec:locked/cache", capsys) == f"locked/cache: expected a program, got {why}"


@pytest.mark.parametrize("command", ["init-adapter locked/more/mine.py", "init-adapter --lang go locked/more"])
def test_an_adapter_that_can_not_be_written_is_told(command: str, capsys: Capture) -> None:
    said = refused(command, "", capsys)
    assert said.startswith("locked/more") and said.endswith(f"can't be written: {os.strerror(errno.EACCES)}")
