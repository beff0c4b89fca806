"""Executors: what plays shards.  Each takes a function with plain arguments and gives a future, as the standard
library's do; a worker that dies fails one future with one of its ``lost`` errors, and nothing else.

The tool itself needs none of them: Ray and Dask are imported when they are asked for.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, ParamSpec, Protocol, TypeVar

from kvlitmus.conformance.isolation.parent import die_with_parent
from kvlitmus.conformance.support.text import harmless

P = ParamSpec("P")
T = TypeVar("T")


class ExecutorError(Exception):
    """There is no such executor here, or it can't be reached; the text says what to do."""


class WorkerLost(Exception):
    """A worker died before it had answered."""


class Executor(Protocol):
    """What plays shards.

    lost: the errors of a future whose worker died.  cores: how many shards it plays at the same time, as far as it is
    known.  at_once: how many it is to be given before one is done.
    """

    lost: tuple[type[BaseException], ...]
    cores: int
    at_once: int

    def submit(self, function: Callable[P, T], *args: P.args, **words: P.kwargs) -> Future[T]:
        """Have a function called in a worker."""

    def close(self) -> None:
        """End what is still played, and let all workers go."""


class Processes:
    """Processes of this machine, a fresh one for each shard."""

    lost: tuple[type[BaseException], ...] = (WorkerLost,)

    def __init__(self, cores: int) -> None:
        self.cores = self.at_once = cores
        self.threads = ThreadPoolExecutor(cores, "shard")
        self.context = multiprocessing.get_context("spawn")
        self.running: set[BaseProcess] = set()
        self.closed = False

    def submit(self, function: Callable[P, T], *args: P.args, **words: P.kwargs) -> Future[T]:
        """Have a function called in a process of its own, as soon as one of so many has ended."""
        return self.threads.submit(self.call, partial(function, *args, **words))

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in a process and wait for its answer; raises :class:`WorkerLost`, and what it raised."""
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=answer, args=(theirs, function), daemon=False)
        process.start()
        self.running.add(process)
        theirs.close()
        try:
            if self.closed:
                process.kill()
            came, error = ours.recv()
        except (EOFError, OSError):
            process.join()
            raise WorkerLost(f"its process ended by {ended(process.exitcode)}") from None
        finally:
            ours.close()
            process.join()
            self.running.discard(process)
        if error is not None:
            raise error
        found: T = came
        return found

    def close(self) -> None:
        """Kill what still runs; its workers end with it."""
        self.closed = True
        for process in list(self.running):
            with suppress(OSError):
                process.kill()
        self.threads.shutdown(cancel_futures=True)


def ended(code: int | None) -> str:
    """How a process ended, in words."""
    return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"


def answer(pipe: Connection, function: Callable[[], Any]) -> None:
    """Call a function in this process and send what it returns or raises.  Ctrl-C is the business of the other end.

    When that is killed, this process is too, with all that it has started.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    try:
        came: Any = (function(), None)
    except Exception as error:  # noqa: BLE001 - it is raised again at the other end
        came = (None, error)
    with suppress(BrokenPipeError):
        pipe.send(came)


class Ray:
    """Ray's workers: those of the cluster at an address, or of one that is started on this machine."""

    def __init__(self, address: str, cores: int) -> None:
        try:
            import ray
        except ImportError:
            raise ExecutorError("--on ray needs Ray: pip install 'kvlitmus[ray]'") from None
        self.ray = ray
        here: dict[str, Any] = {"address": address} if address else {"num_cpus": cores, "include_dashboard": False}
        try:
            ray.init(log_to_driver=False, logging_level="error", **here)
        except (OSError, RuntimeError, ValueError) as error:
            raise ExecutorError(f"--on ray: {harmless(error, 300)}") from None
        self.at_once = 10_000  # a cluster grows by what waits
        self.cores = int(ray.cluster_resources().get("CPU", cores))
        self.lost: tuple[type[BaseException], ...] = (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.ObjectLostError,
            ray.exceptions.OutOfMemoryError,
        )

    def submit(self, function: Callable[P, T], *args: P.args, **words: P.kwargs) -> Future[T]:
        """Have a function called as a task, which Ray doesn't repeat by itself."""
        found: Future[T] = self.ray.remote(max_retries=0)(function).remote(*args, **words).future()
        return found

    def close(self) -> None:
        """Leave the cluster, which ends one that was started here."""
        self.ray.shutdown()


class Dask:
    """Dask's workers: those of the scheduler at an address, or of a cluster that is started on this machine."""

    def __init__(self, address: str, cores: int) -> None:
        try:
            import dask
            import distributed
        except ImportError:
            raise ExecutorError("--on dask needs Dask: pip install 'kvlitmus[dask]'") from None
        dask.config.set({"distributed.scheduler.allowed-failures": 0})
        try:
            self.cluster = (
                None
                if address
                else distributed.LocalCluster(n_workers=cores, threads_per_worker=1, dashboard_address=None)
            )
            self.client = distributed.Client(address or self.cluster)
        except (OSError, ValueError) as error:
            raise ExecutorError(f"--on dask: {harmless(error, 300)}") from None
        self.executor = self.client.get_executor(pure=False)
        # What waits beside a shard in a worker is lost with it: so nothing waits there.
        self.cores = self.at_once = sum(self.client.nthreads().values()) or cores
        self.lost: tuple[type[BaseException], ...] = (distributed.scheduler.KilledWorker,)

    def submit(self, function: Callable[P, T], *args: P.args, **words: P.kwargs) -> Future[T]:
        """Have a function called as a task."""
        found: Future[T] = self.executor.submit(function, *args, **words)
        return found

    def close(self) -> None:
        """Leave the cluster, which ends one that was started here."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()


NAMES = ("processes", "ray", "dask")


def executor_of(word: str, cores: int) -> Executor:
    """The executor that a word says: a name, and for a cluster that is there its address, as ``ray:auto``.

    cores: how many workers to start, where none are there.  Raises :class:`ExecutorError`.
    """
    name, _, address = word.partition(":")
    if name == "processes" and not address:
        return Processes(cores)
    if name == "ray":
        return Ray(address, cores)
    if name == "dask":
        return Dask(address, cores)
    raise ExecutorError(
        f"--on: expected processes, ray, ray:ADDRESS, dask or dask:ADDRESS (got {harmless(word, 80)!r})"
    )
