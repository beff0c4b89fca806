"""Targets by name: where each one is, and which Python runs it.

A target is named by a short name of the table below, or, for anybody's own, as ``module:attribute`` with the current
folder importable, or as ``folder/file.py:attribute`` with that folder importable too.  Without an attribute it is the
one target that the module has.  ``exec:./program argument`` is a program that speaks for a cache in any language
(:mod:`~kvlitmus.conformance.isolation.remote`); no shell reads it.  Nothing is imported here until
:func:`load_target` is called; that is the business of a worker process, which may be another Python than this one.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import shlex
import shutil
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import closest, harmless

PEERS_VARIABLE = "KVLITMUS_PEERS"
"""The environment variable that names the folder with the environments of the peers."""

ADAPTERS = "kvlitmus.conformance.adapters"

FILE = re.compile(r"(.*\.py)(?::(.*))?", re.DOTALL)
"""A target that is named by its file."""


EXEC = "exec:"
"""What a target begins with that is a program."""

REMOTE = "kvlitmus.conformance.isolation.remote.target"
"""The module that speaks with programs."""


class TargetError(Exception):
    """A target can't be judged at all: it can't be found, imported or made.  The text, which is harmless, says why."""


class UnknownTarget(TargetError):
    """A name that stands for no target, or a target whose environment is missing; the text says what to do."""


class Known(NamedTuple):
    """A target of the table: where it is, the release whose environment it needs, and what it is."""

    module: str
    attribute: str
    release: str
    about: str


_OLD, _NEW = "sglang-0.5.13.post1", "sglang-0.5.23"
_OLD_PLACE, _NEW_PLACE = f"{ADAPTERS}.sglang.v0_5_13", f"{ADAPTERS}.sglang.v0_5_23"
_OLD_MODULE, _NEW_MODULE = f"{_OLD_PLACE}.flat", f"{_NEW_PLACE}.flat"
_OLD_HICACHE, _OLD_UNIFIED = f"{_OLD_PLACE}.hicache", f"{_OLD_PLACE}.unified"
_NEW_HICACHE = f"{_NEW_PLACE}.hicache"
_FILES = f"{ADAPTERS}.sglang.common.file"

KNOWN: dict[str, Known] = {
    "specimen": Known("kvlitmus.conformance.specimen.cache", "target", "", "the built-in mutable cache"),
    "reference": Known(f"{ADAPTERS}.reference.target", "target", "", "the reference model, as a cache"),
    "optimized": Known(f"{ADAPTERS}.optimized.target", "target", "", "the optimized cache, over tensors on the CPU"),
    "optimized-cuda": Known(f"{ADAPTERS}.optimized.target", "cuda", "", "the same, over tensors on a CUDA device"),
    "optimized-ranks": Known(f"{ADAPTERS}.optimized.ranks", "target", "", "the optimized cache on several ranks"),
    "optimized-sparse": Known(f"{ADAPTERS}.optimized.sparse", "target", "", "the optimized cache's sparse rows"),
    "optimized-components": Known(
        f"{ADAPTERS}.optimized.components", "target", "", "the optimized cache of several components"
    ),
    "components": Known(
        "kvlitmus.conformance.specimen.cache", "component_target", "", "the built-in cache of several components"
    ),
    "reference-components": Known(
        f"{ADAPTERS}.reference.components", "target", "", "the reference's cache of several components"
    ),
    "component-requests": Known(
        "kvlitmus.conformance.specimen.cache",
        "component_request_target",
        "",
        "the built-in cache that serves requests on several components",
    ),
    "reference-component-requests": Known(
        f"{ADAPTERS}.reference.component_requests", "target", "", "the reference's cache that serves them"
    ),
    "reference-store": Known(f"{ADAPTERS}.reference.store", "target", "", "the reference's page store"),
    "reference-sparse": Known(f"{ADAPTERS}.reference.sparse", "target", "", "the reference's sparse host pool"),
    "file-store": Known(f"{ADAPTERS}.stores.file", "target", "", "the built-in page store in files"),
    "file-store-durable": Known(f"{ADAPTERS}.stores.file", "durable", "", "the same, waiting for the medium"),
    "network-store": Known(f"{ADAPTERS}.stores.network", "target", "", "the built-in page store on a server"),
    "mooncake-store": Known(f"{ADAPTERS}.stores.mooncake", "target", "", "the built-in page store over Mooncake's"),
    "redis": Known(f"{ADAPTERS}.stores.redis", "redis", "", "pages on a Redis server, found or started"),
    "valkey": Known(f"{ADAPTERS}.stores.redis", "valkey", "", "pages on a Valkey server, found or started"),
    _OLD: Known(_OLD_MODULE, "radix", _OLD, "SGLang's RadixCache over its allocators"),
    f"{_OLD}-sorted": Known(_OLD_MODULE, "radix_sorted", _OLD, "the same, freed pages sorted late"),
    f"{_OLD}-requests": Known(_OLD_MODULE, "radix_requests", _OLD, "the same, with its requests"),
    f"{_OLD}-hicache": Known(_OLD_HICACHE, "hiradix", _OLD, "SGLang's HiRadixCache with host tier and storage"),
    f"{_OLD}-hicache-events": Known(_OLD_HICACHE, "hiradix_events", _OLD, "the same, with its events told"),
    f"{_OLD}-unified-hicache": Known(
        _OLD_UNIFIED, "unified", _OLD, "SGLang's UnifiedRadixCache with host tier and storage"
    ),
    f"{_OLD}-unified-hicache-events": Known(_OLD_UNIFIED, "unified_events", _OLD, "the same, with its events told"),
    f"{_OLD}-device-pool": Known(_OLD_MODULE, "device_pool", _OLD, "SGLang's allocators alone"),
    f"{_OLD}-host-pool": Known(_OLD_MODULE, "host_pool", _OLD, "SGLang's HostKVCache alone"),
    f"{_OLD}-hisparse": Known(
        f"{_OLD_PLACE}.hisparse", "hisparse", _OLD, "SGLang's host memory for sparse attention, alone"
    ),
    f"{_OLD}-ranks": Known(f"{_OLD_PLACE}.ranks", "ranks", _OLD, "SGLang's HiRadixCache on several ranks"),
    **{
        f"{release}-{name}": Known(
            f"{place}.components", name.replace("-", "_"), release, f"SGLang's UnifiedRadixCache {about}"
        )
        for release, place in ((_OLD, _OLD_PLACE), (_NEW, _NEW_PLACE))
        for name, about in (
            ("swa", "with a sliding window"),
            ("mamba", "with Mamba states"),
            ("swa-mamba", "with a sliding window and Mamba states"),
        )
    },
    f"{_OLD}-swa-radix": Known(
        f"{_OLD_PLACE}.hybrid", "swa_radix", _OLD, "SGLang's SWARadixCache, for a model with a sliding window"
    ),
    f"{_OLD}-mamba-radix": Known(
        f"{_OLD_PLACE}.hybrid", "mamba_radix", _OLD, "SGLang's MambaRadixCache, for a model with Mamba states"
    ),
    f"{_OLD}-hi-mamba": Known(
        f"{_OLD_PLACE}.hi_mamba", "hi_mamba", _OLD, "SGLang's HiMambaRadixCache, with nothing on the host"
    ),
    **{
        f"{_NEW}-{name}-hosted": Known(
            f"{_NEW_PLACE}.component_host",
            f"{name.replace('-', '_')}_hosted",
            _NEW,
            f"the same with host memory, {about}",
        )
        for name, about in (
            ("swa", "with a sliding window"),
            ("mamba", "with Mamba states"),
            ("swa-mamba", "with a sliding window and Mamba states"),
        )
    },
    **{
        f"{_NEW}-{name}-fetched": Known(
            f"{_NEW_PLACE}.component_prefetch",
            f"{name.replace('-', '_')}_fetched",
            _NEW,
            f"SGLang's prefetches to the host, {about}",
        )
        for name, about in (
            ("swa", "with a sliding window"),
            ("mamba", "with Mamba states"),
            ("swa-mamba", "with a sliding window and Mamba states"),
        )
    },
    **{
        f"{_NEW}-{name}{tiers}-rust": Known(
            f"{_NEW_PLACE}.native_components",
            f"{name}{tiers}_rust".replace("-", "_"),
            _NEW,
            f"the same with its compiled tree{behind}, {about}",
        )
        for tiers, behind in (("", ""), ("-hosted", " and host memory"))
        for name, about in (
            ("swa", "with a sliding window"),
            ("mamba", "with Mamba states"),
            ("swa-mamba", "with a sliding window and Mamba states"),
        )
    },
    _NEW: Known(_NEW_MODULE, "unified_python", _NEW, "SGLang's UnifiedRadixCache with its tree in Python"),
    **{
        f"{_NEW}-{core}{suffix}": Known(_NEW_MODULE, f"unified_{core}{attribute}", _NEW, about)
        for core, about in (
            ("python", "SGLang's UnifiedRadixCache with its tree in Python"),
            ("rust", "SGLang's UnifiedRadixCache with its compiled tree"),
            ("kvlitmus", "SGLang's UnifiedRadixCache with the optimized cache's tree"),
        )
        for suffix, attribute, about in (("", "", about), ("-requests", "_requests", f"{about}, and its requests"))
    },
    f"{_NEW}-hicache": Known(_NEW_HICACHE, "hicache_python", _NEW, "SGLang's hierarchy with its tree in Python"),
    f"{_NEW}-hicache-events": Known(_NEW_HICACHE, "hicache_python_events", _NEW, "the same, with its events told"),
    f"{_NEW}-hicache-rust": Known(_NEW_HICACHE, "hicache_rust", _NEW, "SGLang's hierarchy with its compiled tree"),
    f"{_NEW}-hicache-rust-events": Known(_NEW_HICACHE, "hicache_rust_events", _NEW, "the same, with its events told"),
    f"{_NEW}-device-pool": Known(_NEW_MODULE, "device_pool", _NEW, "SGLang's allocators alone"),
    f"{_NEW}-device-pool-triton": Known(_NEW_MODULE, "device_pool_triton", _NEW, "the same, in Triton"),
    f"{_NEW}-host-pool": Known(_NEW_MODULE, "host_pool", _NEW, "SGLang's HostKVCache alone"),
    "vllm-0.33.0": Known(
        f"{ADAPTERS}.vllm.v0_33", "target", "vllm-0.33.0", "vLLM's KV cache manager with several KV cache groups"
    ),
    "vllm-0.33.0-eagle": Known(
        f"{ADAPTERS}.vllm.v0_33", "eagle", "vllm-0.33.0", "the same, with hits that leave the last block out"
    ),
    "vllm-0.33.0-flat": Known(
        f"{ADAPTERS}.vllm.flat", "target", "vllm-0.33.0", "vLLM's KV cache manager of full attention, a block table"
    ),
    f"{_OLD}-file": Known(_FILES, "file_13", _OLD, "SGLang's storage in files, HiCacheFile, alone"),
    f"{_NEW}-file": Known(_FILES, "file_23", _NEW, "SGLang's storage in files, HiCacheFile, alone"),
    f"{_OLD}-storage-hits": Known(
        f"{ADAPTERS}.sglang.common.storage_hits", "hits_13", _OLD, "what HiCacheFile finds usable of several pools"
    ),
    f"{_OLD}-state-commits": Known(
        f"{ADAPTERS}.sglang.common.state_commits", "commits_13", _OLD, "where HiMambaRadixCache attaches a state"
    ),
    f"{_NEW}-file-metadata": Known(_FILES, "file_23_metadata", _NEW, "the same, remembering what is there"),
}
"""The targets that have a name of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRef:
    """Where a target is: ``attribute`` of ``module``, in the interpreter ``python``.

    roots: folders that the interpreter needs on its path to find kvlitmus.  folders: where the module is looked for
    first, those of the current folder and of the file that was named.  command: of a target that is a process of its
    own the program and its arguments; its module is what speaks with it.
    """

    name: str
    module: str
    attribute: str
    python: str
    roots: tuple[str, ...]
    folders: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def known_targets() -> dict[str, str]:
    """The names that stand for a target, each with what it is."""
    return {name: known.about for name, known in KNOWN.items()}


def resolve_target(name: str, *, python: str | None = None) -> TargetRef:
    """Where the target of this name is; nothing is imported.

    ``python`` overrides the interpreter.  Raises :class:`UnknownTarget`, whose text can be shown as it is.
    """
    known = KNOWN.get(name)
    if known is not None:
        interpreter = python or (peer_python(known.release) if known.release else sys.executable)
        return _ref(name, known.module, known.attribute, interpreter)
    if name.startswith(EXEC):
        return _ref_of_program(name, python or sys.executable)
    if (file := FILE.fullmatch(name)) is not None:
        return _ref_of_file(name, Path(file[1]), file[2] or "", python or sys.executable)
    module, colon, attribute = name.partition(":")
    if colon and _dotted(module) and (not attribute or _dotted(attribute)):
        return _ref(name, module, attribute, python or sys.executable)
    if _dotted(name) and _here(name):
        return _ref(name, name, "", python or sys.executable)
    near = difflib.get_close_matches(name.casefold(), list(KNOWN), n=1, cutoff=0.5)
    if os.sep in name and os.access(name, os.X_OK) and Path(name).is_file():
        near = [f"{EXEC}{shlex.quote(name)}"]
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownTarget(
        f"there is no target {harmless(name, 100)!r}; {hint}"
        f"there are {', '.join(_known_briefly())}; yours is module, module:attribute, file.py or exec:program"
    )


def _known_briefly() -> list[str]:
    """The names of the table, those of one release in a word."""
    releases = Counter(known.release for known in KNOWN.values())
    own = [name for name, known in KNOWN.items() if not known.release]
    return own + [f"{release}… ({many})" for release, many in releases.items() if release]


def _ref_of_file(name: str, file: Path, attribute: str, python: str) -> TargetRef:
    """The target in a file: its module is called as the file is, and looked for in the file's own folder first."""
    try:
        there = file.is_file()
    except OSError as error:
        raise UnknownTarget(f"{harmless(file, 200)}: {files.unreadable(error)}") from None
    if not there:
        raise UnknownTarget(f"there is no file {harmless(file, 200)}")
    if not _dotted(file.stem) or file.stem in sys.stdlib_module_names or file.stem == "kvlitmus":
        raise UnknownTarget(f"{harmless(file, 200)}: a module can't be called {harmless(file.stem, 80)!r}; rename it")
    if attribute and not _dotted(attribute):
        raise UnknownTarget(f"expected file.py or file.py:attribute (got {harmless(name, 200)})")
    ref = _ref(name, file.stem, attribute, python)
    return replace(ref, folders=(str(file.resolve().parent), *ref.folders))


def _ref_of_program(name: str, python: str) -> TargetRef:
    """The target that is a program: behind ``exec:`` stand words, with quotes as in a shell."""
    try:
        words, why = shlex.split(name.removeprefix(EXEC)), ""
    except ValueError as error:
        words, why = [], f": {error}"
    if not words:
        raise UnknownTarget(f"expected exec:program and its arguments, got {harmless(name, 200)}{why}")
    program, *arguments = words
    found = shutil.which(program)
    if found is None:
        try:
            there = files.existing(Path(program)) is not None
            why = "it can't be executed" if there else "there is no such program (from here)"
        except OSError as error:
            why = files.unreadable(error, "a program")
        raise UnknownTarget(f"{harmless(program, 200)}: {why}")
    return replace(_ref(name, REMOTE, "RemoteTarget", python), command=(str(Path(found).absolute()), *arguments))


def _here(module: str) -> bool:
    """Whether the current folder has a module of this name, so that a bare name can only mean that."""
    place = Path(*module.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def load_target(ref: TargetRef) -> Any:
    """Import the target into this process; raises :class:`UnknownTarget`, and whatever its module raises."""
    try:
        found: Any = importlib.import_module(ref.module)
    except ModuleNotFoundError as error:
        if error.name != ref.module and not ref.module.startswith(f"{error.name}."):
            raise  # it is there, and needs another one
        raise UnknownTarget(f"there is no module {ref.module!r} here or where Python looks") from error
    at = ref.module
    for part in ref.attribute.split(".") if ref.attribute else ():
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise UnknownTarget(
                f"{at} has no {part!r}{closest(part, _public(found)).rstrip('?')}{_targets_in(found)}"
            ) from error
        at = f"{at}.{part}" if ":" in at else f"{at}:{part}"
    if ref.command:
        return found(ref.command)
    return found if ref.attribute or _makes(found) else _only_target(found, ref.module)


def _only_target(module: Any, name: str) -> Any:
    """The one target that a module has; raises :class:`UnknownTarget` where it has none, or several."""
    found = {one: getattr(module, one) for one in _targets(module)}
    if len({id(one) for one in found.values()}) != 1:
        several = f" has several targets: {', '.join(f'{name}:{one}' for one in list(found)[:8])}"
        raise UnknownTarget(name + (several if found else " has nothing with make(config) and a profile"))
    return next(iter(found.values()))


def _public(place: Any) -> list[str]:
    """The names that somebody may have meant."""
    return [str(name) for name in getattr(place, "__dict__", {}) if not str(name).startswith("_")]


def _targets_in(place: Any) -> str:
    """Which targets there are instead."""
    names = _targets(place)
    return f"; its targets: {', '.join(names[:8])}" if names else "; it has nothing with make(config) and a profile"


def _targets(place: Any) -> list[str]:
    """The names of the targets that are in a module or another place."""
    return [name for name in _public(place) if _makes(getattr(place, name, None))]


def _makes(value: Any) -> bool:
    """Whether this looks like a target; whatever it is, asking does no harm."""
    try:
        return not isinstance(value, type) and callable(value.make) and hasattr(value, "profile")
    except Exception:  # noqa: BLE001 - then it is none
        return False


def peer_python(release: str) -> str:
    """The interpreter of a peer's environment; raises :class:`UnknownTarget` when it hasn't been made."""
    folder = Path(os.environ.get(PEERS_VARIABLE) or ".peers")
    for place in (folder, checkout_peers()):
        python = place / release / "bin" / "python"
        if python.is_file():
            return str(python.absolute())
    raise UnknownTarget(
        f"the environment of {release} is missing: 'tools/peers {release}' makes it "
        f"(looked in {folder}; {PEERS_VARIABLE} names another folder, --python another interpreter)"
    )


def checkout_peers() -> Path:
    """Where ``tools/peers`` puts its environments when kvlitmus runs from a checkout."""
    return Path(__file__).resolve().parents[4] / ".peers"


def roots() -> tuple[str, ...]:
    """The folders under which this process finds kvlitmus."""
    places = sys.modules["kvlitmus"].__path__
    return tuple(dict.fromkeys(str(Path(place).resolve().parent) for place in places))


def _ref(name: str, module: str, attribute: str, python: str) -> TargetRef:
    here = (str(Path.cwd()),)
    return TargetRef(name=name, module=module, attribute=attribute, python=python, roots=roots(), folders=here)


def _dotted(text: str) -> bool:
    return len(text) < 300 and re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", text) is not None
