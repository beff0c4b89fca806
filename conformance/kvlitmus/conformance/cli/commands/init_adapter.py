"""``kvlitmus init-adapter``: writes an adapter to fill in, or what a cache in another language begins with."""

from __future__ import annotations

import argparse
import keyword
import os
import re
import shlex
import sys
from pathlib import Path

from kvlitmus.conformance.cli.commands.common import UsageError, split
from kvlitmus.conformance.isolation.remote.kits import BUILDS, KITS, kit_folder
from kvlitmus.conformance.ports.template import USUAL, Port, all_ports, generate
from kvlitmus.conformance.ports.template_words import wrapped
from kvlitmus.conformance.run.targets import EXEC
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import closest, harmless

DEFAULT = "cache_adapter.py"
"""Where the adapter is written when nobody says."""


def main(args: argparse.Namespace) -> int:
    """Write the adapter and say what comes next; 0, unless something is wrong with what was asked for."""
    known = all_ports()
    if args.list:
        return list_ports(known)
    if (args.path or "").startswith(EXEC):
        raise UsageError(
            f"{args.path} is a program that is there already: 'kvlitmus run' judges it without an adapter; "
            "--lang writes into a folder what such a program begins with"
        )
    if args.lang is not None:
        return copy_kit(args)
    chosen = pick_ports(args.ports, known)
    path = Path(args.path or DEFAULT)
    module, folder = module_of(path)
    name = name_of(args.name, path)
    write(path, generate(name, module, chosen, folder=folder), force=args.force)
    methods = sum(len(port.methods) for port in chosen)
    ports = ", ".join(port.name for port in chosen)
    print(f"{harmless(path)}: {methods} method{'s' * (methods != 1)} of {ports} to fill in")
    cd = f"cd {folder} && " if folder else ""
    print(f"then: {cd}kvlitmus smoke {module}:target")
    print(f"      {cd}kvlitmus run {module}:target")
    return 0


def copy_kit(args: argparse.Namespace) -> int:
    """Copy the kit of a language into a folder, and say what comes next; 0."""
    if args.ports or args.name is not None:
        raise UsageError("--lang copies a kit as it is: it goes with --force alone")
    folder = Path(args.path or f"cache-{args.lang}")
    if kind_of(folder) == "a file":
        raise UsageError(f"{folder} is a file; --lang takes a folder")
    kit = sorted(path for path in kit_folder(args.lang).iterdir() if path.is_file())
    for path in kit:
        if kind_of(folder / path.name) and not args.force:
            raise UsageError(f"{folder / path.name} exists; --force replaces it")
    for path in kit:
        write(folder / path.name, path.read_text(encoding="utf-8"), force=args.force)
    print(f"{harmless(folder)}: {KITS[args.lang]}, to replace by yours: {', '.join(path.name for path in kit)}")
    build, command = BUILDS[args.lang]
    print(f"then: cd {shlex.quote(harmless(folder))} && {build}")
    print(f"      kvlitmus run {shlex.quote(f'exec:{command}')}")
    return 0


def kind_of(path: Path) -> str:
    """What is there where something is to be written: a file, a folder, or nothing, an empty text."""
    try:
        return "a folder" if files.is_folder(path) else "a file" if files.existing(path) is not None else ""
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: can't be written: {files.reason(error)}") from None


def list_ports(known: dict[str, Port]) -> int:
    """Show every port, its methods and what it is about."""
    for port in known.values():
        print(f"{port.name:<12} {', '.join(port.methods)}")
        for line in wrapped(port.about, 13):
            print(line)
    return 0


def pick_ports(words: list[str], known: dict[str, Port]) -> list[Port]:
    """The ports that were asked for, in the order in which they are listed."""
    wanted = [word.lower() for word in split(words)] or list(USUAL)
    if words and not split(words):
        raise UsageError("--ports names no port ('kvlitmus init-adapter --list' lists them)")
    if wanted == ["all"]:
        return list(known.values())
    for word in wanted:
        if word not in known:
            owner = next((port.name for port in known.values() if word in port.methods), "")
            hint = f"; {word} is a method of {owner!r}" if owner else closest(word, known)
            raise UsageError(f"there is no port {word!r}{hint} (there are {', '.join(known)}, and all)")
    return [port for port in known.values() if port.name in wanted]


def module_of(path: Path) -> tuple[str, str]:
    """The module's name as ``kvlitmus run`` takes it, and the folder to run it in, empty for the current one.

    A path outside of the current folder, or through folders that can't be part of a module's name,
    is run in its own folder.
    """
    stem = path.stem
    if path.suffix != ".py":
        raise UsageError(f"{path}: an adapter is a Python module: the name must end in .py")
    if kind_of(path) == "a folder":
        raise UsageError(f"{path} is a folder")
    if not _importable(stem):
        better = re.sub(r"\W", "_", stem).lstrip("0123456789_") or "cache_adapter"
        better += "_" if keyword.iskeyword(better) else ""
        raise UsageError(f"{path}: {stem!r} can't be imported; try {path.with_name(better + '.py')}")
    if stem in sys.stdlib_module_names or stem == "kvlitmus":
        raise UsageError(f"{path}: it would hide the module {stem!r}; try {path.with_name(f'{stem}_adapter.py')}")
    inside = Path(os.path.relpath(path))
    parts = inside.with_suffix("").parts
    if all(_importable(part) for part in parts) and parts[0] not in sys.stdlib_module_names and parts[0] != "kvlitmus":
        return ".".join(parts), ""
    return stem, str(path.parent)


def _importable(word: str) -> bool:
    return word.isidentifier() and not keyword.iskeyword(word)


def name_of(given: str | None, path: Path) -> str:
    """What the cache is called in the file: as was said, else as the file, without what says that it is an adapter."""
    if given is None:
        return re.sub(r"_?(adapter|target|kvlitmus)$", "", path.stem) or path.stem
    if not re.fullmatch(r"[A-Za-z][\w .+-]{0,40}", given, re.ASCII):
        raise UsageError(
            f"--name {given!r}: a name begins with a letter and has at most 41 letters, digits and '_ .+-'"
        )
    return given


def write(path: Path, text: str, *, force: bool) -> None:
    """Write the file, whole or not at all; an existing one is replaced only by force."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if force:
            files.write(path, text)
            return
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists; --force replaces it") from None
    except OSError as error:
        raise UsageError(f"{path}: can't be written: {files.reason(error)}") from None
