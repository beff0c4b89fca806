"""The worker pool: worker processes with one target loaded, and the folder in which their state is.

Here is also the first thing that workers are for: :func:`probe` asks a target what it is.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any

from kvlitmus.conformance.isolation.process import Death, Process, kill_marked, wait
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.results import config_from_json, profile_from_json, to_json
from kvlitmus.conformance.run.targets import TargetError, TargetRef, UnknownTarget
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.support.version import version

STATE = Path(".kvlitmus/running")
"""Where running items are, unless told otherwise."""

MAKE_DEATHS = 2
"""After so many configurations whose making killed a worker, and none that worked, no more are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on time, memory and deaths.

    call_seconds: how long one port call (or making one cache) may take.  start_seconds: how long
    starting a worker, importing the target and making its first cache may take, and a method's first call in a
    configuration, which may compile what it runs.  memory_mb: address
    space of one worker, ``None`` for no bound.  shrink_seconds: time to shrink one schedule that kills its worker.
    deaths: after so many dead workers the remaining items are not run.  again_seconds: how long a call may take that
    hung and is played again, and the second cache where the first hung when it was made; ``None`` for twice
    call_seconds, and start_seconds.  on_wait: who is told that a call takes long (:class:`.process.Process`).
    """

    call_seconds: float = 10.0
    start_seconds: float = 90.0
    memory_mb: int | None = None
    shrink_seconds: float = 10.0
    deaths: int = 12
    again_seconds: float | None = None
    on_wait: Callable[[str, str], None] | None = field(default=None, compare=False)


@dataclass(slots=True, kw_only=True)
class TargetInfo:
    """What a target says of itself before it is judged.

    capabilities: by the label of the configuration.  unsupported: labels of configurations that
    the target declined, with its reason; errors: those that it failed to make, likewise.
    left_out: those of its configurations that it isn't judged in for want of a port, likewise.
    versions: of python, kvlitmus, and what the target states.
    """

    name: str
    profile: Profile
    configs: tuple[Config, ...]
    capabilities: dict[str, frozenset[str]] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


LOADS = 3
"""How often in a run loading a target may fail that was loaded before."""

STALE_SECONDS = 60.0
"""A folder that nobody has locked is one of a killed run if it is older; a younger one may be about to be locked."""

ALIVE = "alive"
"""The file that a run has locked as long as it is there; the system lets go of the locks of what was killed."""


class Folder:
    """A folder for the state of one run; gone when the run is over, or when a later one finds that it was killed."""

    def __init__(self, state: Path | None) -> None:
        import tempfile  # these two are slow to import, and not everybody who asks for limits starts a worker

        self.base = STATE if state is None else state
        try:
            self.base.mkdir(parents=True, exist_ok=True)
            sweep(self.base)
            self.path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self.base.absolute()))
        except OSError:  # a folder that can't be written to
            self.path = Path(tempfile.mkdtemp(prefix="kvlitmus-"))
        self.alive = locked(self.path / ALIVE, os.O_CREAT)

    def remove(self) -> None:
        """Remove the folder, and those above it that were made for it and are empty."""
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)
        if self.alive is not None:
            os.close(self.alive)
            self.alive = None
        with suppress(OSError):
            self.base.rmdir()
            if self.base == STATE:
                self.base.parent.rmdir()


def locked(path: Path, flags: int = 0) -> int | None:
    """The descriptor of a file that is locked now, ``None`` if somebody else has locked it or it can't be opened."""
    try:
        file = files.open_regular(path, os.O_RDWR | flags)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def runs(pid: int) -> bool:
    """Whether there is a process of this number here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def sweep(base: Path, older: float = STALE_SECONDS) -> None:
    """Remove what runs that were killed have left here, and end what their workers had started.

    older: seconds since something was last made there.  Only what looks as a run makes it is touched.
    """
    import shutil

    for path in base.glob("[0-9]*-*"):
        with suppress(OSError, ValueError, OverflowError):
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or time() - found.st_mtime < older:
                continue
            alive = locked(path / ALIVE)
            if alive is None and (os.path.lexists(path / ALIVE) or runs(int(path.name.partition("-")[0]))):
                continue
            kill_marked(path.name)
            shutil.rmtree(path, ignore_errors=True)
            if alive is not None:
                os.close(alive)


class WorkerPool:
    """Starts workers with the target loaded, and stops them all.

    spare: a worker that has loaded the target, and waits for something to judge.  keeps: whether the last one that has
    judged waits for more.
    """

    def __init__(self, ref: TargetRef, limits: Limits, state: Path | None, *, keeps: bool = False) -> None:
        self.ref = ref
        self.keeps = keeps
        self.limits = limits
        self.folder = Folder(state)
        self.started: list[Process] = []
        self.spare: Process | None = None
        self.loaded: dict[str, Any] = {}
        self.failed_loads = 0

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.folder.remove()

    def stop(self, but: Process | None = None) -> None:
        """Stop all workers, ``but`` one."""
        for worker in self.started:
            if worker is not but:
                with suppress(Exception):
                    worker.stop(0)
        if but is None:
            kill_marked(self.folder.path.name)

    def launch(self, *, judging: bool = False) -> Process:
        """A process that has begun to load the target; one that is to judge notes first what its judge is."""
        self.started = [worker for worker in self.started if worker.status is None]
        number = 1 + max((worker.number for worker in self.started), default=0)
        try:
            worker = Process(
                self.ref,
                self.folder.path,
                number,
                start_seconds=self.limits.start_seconds,
                memory_mb=self.limits.memory_mb or 0,
                on_wait=self.limits.on_wait,
            )
        except OSError as error:
            raise TargetError(f"the interpreter {self.ref.python} can't be started: {error.strerror}") from error
        self.started.append(worker)
        ref = self.ref
        worker.send(
            do="load",
            judging=judging,
            module=ref.module,
            attribute=ref.attribute,
            folders=ref.folders,
            command=ref.command,
        )
        return worker

    def loading_failed(self, worker: Process) -> TargetError | None:
        """Why the target could not be loaded, once that is known."""
        if worker.answer is not None:
            if "loaded" in worker.answer:
                self.loaded = worker.answer["loaded"]
                return None
            if "unknown" in worker.answer:
                return UnknownTarget(harmless(worker.answer["unknown"], 1_000))
            return TargetError(harmless(worker.answer.get("failed", "the worker's answer can't be read"), 1_000))
        death = worker.death(self.limits.start_seconds)
        if death is None:
            return None
        said = f"; it printed: {death.output}" if death.output else ""
        doing = f"starting {self.ref.name}" if self.ref.command else f"importing {self.ref.module}"
        return TargetError(harmless(f"{doing} {death.text}{said}", 1_000))

    def has_loaded(self, worker: Process) -> bool | None:
        """Whether a worker has loaded the target, ``None`` while it does.

        Raises :class:`TargetError` where no worker could, and where it has failed too often since.
        """
        failed = self.loading_failed(worker)
        if failed is None:
            return None if worker.answer is None else True
        self.failed_loads += 1
        if not self.loaded or self.failed_loads > LOADS:
            raise failed
        return False

    def ready(self, *, judging: bool = False) -> Process:
        """A worker with the target loaded; raises :class:`TargetError`."""
        worker = self.launch(judging=judging)
        while worker.answer is None:
            wait([worker], 0.1)
            failed = self.loading_failed(worker)
            if failed is not None:
                raise failed
        return worker

    def ready_or_dead(self) -> Process | Death:
        """The same, for crash triage, which can do without."""
        try:
            return self.ready()
        except TargetError:
            return Death(kind="broken")


def probe(
    ref: TargetRef,
    *,
    configs: Sequence[Config] | None = None,
    limits: Limits | None = None,
    state: Path | None = None,
) -> TargetInfo:
    """Ask a target for its profile, configurations and capabilities; raises :class:`TargetError`.

    ``configs`` instead of the target's own: those for which the capabilities are wanted.
    """
    with WorkerPool(ref, limits or Limits(), state) as pool:
        return probe_in(pool, configs)


def probe_in(pool: WorkerPool, configs: Sequence[Config] | None = None) -> TargetInfo:
    """The same in a pool that goes on: the worker that was asked waits there for something to judge."""
    maker = Maker(pool)
    try:
        told = tuple(config_from_json(one) for one in pool.loaded["configs"])
        families = [tuple(map(config_from_json, one)) for one in pool.loaded["families"]]
        info = TargetInfo(
            name=pool.ref.name,
            profile=profile_from_json(pool.loaded["profile"]),
            configs=told if configs is None else tuple(configs),
            versions={"kvlitmus": version(), **pool.loaded["versions"]},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TargetError(f"the target's description can't be read: {harmless(error)}") from error
    for config in info.configs:
        came = maker.make(config)
        if "capabilities" in came:
            info.capabilities[config.label] = frozenset(map(str, came["capabilities"]))
        elif "unsupported" in came:
            info.unsupported[config.label] = harmless(came["unsupported"])
        elif "left_out" in came:
            info.left_out[config.label] = harmless(came["left_out"])
        else:
            info.errors[config.label] = harmless(came.get("failed", "the worker's answer can't be read"), 1_000)
        if maker.deaths >= MAKE_DEATHS and not info.capabilities:
            break
    if configs is None:
        look_further(maker, info, families)
        info.configs = tuple(config for config in info.configs if config.label not in info.left_out)
    if not info.configs:
        label, reason = next(iter(info.left_out.items()))
        raise TargetError(f"none of its configurations is left to judge; [{label}]: {reason}")
    if info.errors and not info.capabilities:
        label, reason = next(iter(info.errors.items()))
        declined = f"; the target declines {len(info.unsupported)} other configurations" if info.unsupported else ""
        raise TargetError(f"no cache could be made; [{label}]: {reason}{declined}")
    pool.spare = maker.worker
    return info


class Maker:
    """Has caches made in a worker, and in another one when that has died of it."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.worker: Process | None = pool.ready(judging=True)
        self.deaths = 0
        self.seconds = pool.limits.call_seconds

    def make(self, config: Config) -> Mapping[str, Any]:
        """The ``capabilities`` of the cache, why it is ``unsupported`` or ``left_out``, or what ``failed``."""
        self.worker = self.worker or self.pool.ready(judging=True)
        came = self.worker.ask(self.seconds, do="make", config=to_json(config))
        if not isinstance(came, Death):
            return came
        self.worker = None
        self.deaths += 1
        if came.kind == "hang" and self.pool.limits.again_seconds is not None:
            self.worker = self.pool.ready(judging=True)
            self.worker.start_seconds = self.seconds = self.pool.limits.again_seconds
        return {"failed": f"making the cache {came.text}"}


def look_further(maker: Maker, info: TargetInfo, families: Sequence[Sequence[Config]]) -> None:
    """Where a target accepts nothing that the plan has of something, add the nearest configurations that it accepts.

    Of a hierarchy without storage they are those of the plan, each without its storage.
    """

    def accepted() -> list[Config]:
        return [config for config in info.configs if config.label in info.capabilities]

    def asked(config: Config) -> Mapping[str, Any]:
        came = maker.make(config)
        if "capabilities" in came:
            info.configs += (config,)
            info.capabilities[config.label] = frozenset(map(str, came["capabilities"]))
        return came

    for family in families:
        beyond = [config for config in plan.without_storage(family, accepted()) if config not in info.configs]
        for config in beyond:
            asked(config)
        for values in plan.lacking([*family, *beyond], accepted()):
            if values.get("storage", "none") != "none" and any(one.label in info.left_out for one in family):
                continue  # no storage can be attached
            for config in plan.nearby(family, values):
                if "unsupported" not in asked(config):
                    break
