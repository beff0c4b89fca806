"""The worker: a process in which an adapter and the judge run, under a supervisor.

    python -m kvlitmus.conformance.isolation.worker

It reads commands on its standard input and answers on its standard output, one JSON object a
line.  Both are moved to private descriptors before anything of a stranger is imported: what an
adapter prints, from Python, from C or from a child process, goes to standard error and can't get
between the answers.

While it works, a second thread reports how many calls were made, so that the supervisor can
tell a long play from a call that doesn't come back.  Before a schedule is played it is written to
a file; when the process dies, the file says what killed it.
"""

from __future__ import annotations

import errno
import faulthandler
import json
import os
import platform
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import LeftOut, short_of_memory
from kvlitmus.conformance.generate.schedule import Op, describe
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.isolation.integrity import Fingerprint
from kvlitmus.conformance.isolation.parent import Parent
from kvlitmus.conformance.isolation.process import LINE_CLOSED
from kvlitmus.conformance.litmus.registry import litmus_of
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.plan import configs_of, families_of
from kvlitmus.conformance.run.results import (
    ItemResult,
    Options,
    config_from_json,
    item_from_json,
    options_from_json,
    schedule_from_json,
    to_json,
)
from kvlitmus.conformance.run.targets import TargetError, TargetRef, UnknownTarget, _targets_in, load_target
from kvlitmus.conformance.support.frames import frames_now, raised_at, theirs
from kvlitmus.conformance.support.text import harmless, raised_text, shown, type_name
from kvlitmus.conformance.tape.calls import LOOKS
from kvlitmus.mutants.registry import mutant_of
from kvlitmus.spec.words.choices import verify
from kvlitmus.spec.words.profile import PROFILE_VALUES

MOST_CONFIGS = 100
"""So many configurations a target may have."""

BEAT_SECONDS = 0.1
"""How often progress is reported."""

STUCK_SECONDS = 3.0
"""After so long without a call it is reported, too, where the cache is."""

LINE_BYTES = 16 << 20
"""The longest line that is read or written."""

MAKING, PLAYING = b"M", b"P"
"""What the first byte of the file of plays says."""


class Channel:
    """The private line to the supervisor."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands = commands
        self.answers = answers
        self.turn = threading.Lock()

    def lines(self) -> Iterator[dict[str, Any]]:
        """The commands, one after the other, until the supervisor hangs up."""
        rest = bytearray()
        while True:
            end = rest.find(b"\n")
            if end < 0:
                try:
                    more = os.read(self.commands, 1 << 16)
                except OSError as error:
                    lost(error)
                if not more or len(rest) > LINE_BYTES:
                    return
                rest += more
                continue
            line, rest = bytes(rest[:end]), rest[end + 1 :]
            yield json.loads(line)

    def say(self, **message: Any) -> None:
        """Send one line; when nobody listens any more, there is nothing left to do here."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self.turn:
            try:
                while data:
                    data = data[os.write(self.answers, data) :]
            except OSError as error:
                lost(error)


def lost(error: OSError) -> NoReturn:
    """The line or a file of this worker is no more: the supervisor is gone, or the adapter has closed it."""
    os._exit(LINE_CLOSED if error.errno == errno.EBADF else 0)


class Tracer:
    """Writes down every call before it is made: slower, for playing again what killed a process."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, **what: object) -> None:
        """Append one line."""
        try:
            os.write(self.file, json.dumps(what).encode() + b"\n")
        except OSError as error:
            lost(error)


class TracedOps(Sequence[Op]):
    """A schedule that notes which operation is being played."""

    def __init__(self, ops: Sequence[Op], tracer: Tracer) -> None:
        self.ops = ops
        self.tracer = tracer

    def __len__(self) -> int:
        return len(self.ops)

    def __getitem__(self, at: Any) -> Any:
        return self.ops[at]

    def __iter__(self) -> Iterator[Op]:
        for at, op in enumerate(self.ops):
            self.tracer.note(op=at)
            yield op
        self.tracer.note(op=len(self.ops))


def traced_checker(tracer: Tracer) -> type[Checker]:
    """A checker that notes each call, with the answer to the one before."""

    class TracedChecker(Checker):
        def announce(self, text: str, method: str) -> None:
            tracer.note(call=harmless(text), method=method, last=harmless(self.history[-1]) if self.history else "")
            super().announce(text, method)

        def look(self, method: str, *args: Any) -> Any:
            tracer.note(method=method)
            return super().look(method, *args)

    return TracedChecker


class Worker:
    """One worker: its line to the supervisor, and the target once it is loaded.

    piped: whether the target is a process of its own.  met: the features that schedules of a campaign have reached
    here, by number.
    """

    def __init__(self, channel: Channel, plays: int, parent: Parent, memory_mb: int) -> None:
        self.channel = channel
        self.plays = plays
        self.parent = parent
        self.run = CurrentRun(memory_mb=memory_mb)
        self.run.on_make, self.run.on_play = self.note_making, self.note_play
        self.run.met, self.run.on_first = {}, self.note_first
        self.met: dict[tuple[object, ...], int] = {}
        self.target: Any = None
        self.piped = False
        self.fingerprint: Fingerprint | None = None
        self.busy = False
        self.told = False

    def beat(self) -> None:
        """Report progress for ever, and look whether anybody is there; the second thread."""
        pause, since, before = threading.Event(), monotonic(), self.run.progress
        while True:
            self.parent.check()
            now = self.run.progress
            if now != before:
                before, since = now, monotonic()
            if self.busy and monotonic() - since > STUCK_SECONDS:
                self.channel.say(beat=now, place=theirs(frames_now(threading.main_thread().ident)))
            elif self.busy:
                self.channel.say(beat=now)
            pause.wait(BEAT_SECONDS)

    def note(self, data: bytes) -> None:
        """Put this on disk; raises :class:`~.engine.HarnessError` when there is no room."""
        try:
            os.pwrite(self.plays, data, 0)
            os.ftruncate(self.plays, len(data))
        except OSError as error:
            if error.errno == errno.EBADF:
                lost(error)
            raise engine.HarnessError(f"what is played can't be noted: {error.strerror}") from error

    def note_making(self) -> None:
        """On disk: a cache is being made."""
        self.note(MAKING)

    def note_play(self, config: Config, options: Options, program: Any) -> None:
        """On disk: this is being played."""
        ops = getattr(program, "ops", ())
        what = {"muted": sorted(options.muted), "force": options.force_misuse, "schedule": to_json(list(ops))}
        self.note(PLAYING + json.dumps(what, separators=(",", ":")).encode())
        if not self.told:
            self.told = True  # from now on the supervisor is less patient; the other thread may never get to say so
            self.channel.say(beat=self.run.progress)

    def note_first(self) -> None:
        """A method is called for the first time, or has been: how patient to be the supervisor may not hear later."""
        if self.run.checker is not None:
            self.channel.say(beat=self.run.progress)

    def fence(self, methods: Sequence[str], alone: Collection[str] = ()) -> None:
        """Methods that are not called, since they killed a process.

        Over a pipe looks come with an answer; neither these do, nor those that are to be made ``alone``.
        """
        self.run.fenced = frozenset(methods)
        if self.piped:
            self.target.look_alone(self.run.fenced.union(alone))

    def beside(self) -> AbstractContextManager[None]:
        """Meanwhile a target that is a process runs where this thread does."""
        return self.target.on_one_processor() if self.piped else nullcontext()

    # -- commands ------------------------------------------------------------------------------

    def do_load(self, command: dict[str, Any]) -> dict[str, Any]:
        """Import the target and say what it is."""
        sys.path[:0] = [folder for folder in command["folders"] if folder not in sys.path]
        ref = TargetRef(
            name="",
            module=command["module"],
            attribute=command["attribute"],
            python="",
            roots=(),
            command=tuple(command["command"]),
        )
        started = monotonic()
        self.fingerprint = Fingerprint() if command["judging"] else None
        try:
            self.target, self.piped = load_target(ref), bool(ref.command)
            return {"loaded": described(self.target), "seconds": monotonic() - started}
        except UnknownTarget as error:
            return {"unknown": harmless(error)}
        except TargetError as error:
            return {"failed": harmless(error, 1_000)}
        except BaseException as error:  # noqa: BLE001 - a module may raise SystemExit when it is imported
            why = raised_at(error) + short_of_memory(error, self.run.memory_mb)
            return {"failed": f"{ref.module}:{ref.attribute} can't be loaded: {why}"}

    def do_make(self, command: dict[str, Any]) -> dict[str, Any]:
        """Make one cache, to see what it can do."""
        try:
            checker = engine.fresh_checker(self.target, config_from_json(command["config"]), Options(), self.run)
        except LeftOut as why:
            return {"left_out": harmless(why)}
        except Unsupported as declined:
            return {"unsupported": harmless(declined) or "the target gave no reason"}
        except engine.HarnessError as error:
            return {"failed": harmless(error, 2_000)}
        return {"capabilities": sorted(checker.capabilities)}

    def do_item(self, command: dict[str, Any]) -> dict[str, Any]:
        """Judge one item; ``planted`` names a mutant that takes the target's place (:mod:`.integrity`)."""
        self.fence(command["fenced"])
        item = item_from_json(command["item"])
        target = mutant_of(*command["planted"]).target if "planted" in command else self.target
        try:
            with self.beside():
                result = engine.run_item(target, item, options_from_json(command["options"]), self.run)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the next item can still be judged
            result = ItemResult(item=item.id, config=item.config.label, error=f"the suite failed: {where(error)}")
        return {"result": to_json(result)}

    def do_fuzz(self, command: dict[str, Any]) -> dict[str, Any]:
        """Play one schedule of a campaign."""
        from kvlitmus.conformance.fuzz.play import play_item

        self.fence(command["fenced"])
        item, options = item_from_json(command["item"]), options_from_json(command["options"])
        with self.beside():
            return play_item(self.target, item, options, self.run, self.met)

    def do_trial(self, command: dict[str, Any]) -> dict[str, Any]:
        """Play one schedule or litmus test once, noting every call."""
        self.fence(command["fenced"], LOOKS)
        tracer = Tracer(command["trace"])
        met, self.run.met = self.run.met, None  # what hangs has hung before
        ops = schedule_from_json(command["schedule"])
        name = command["litmus"]
        program = litmus_of(name).program if name else engine.Scheduled(TracedOps(ops, tracer))
        try:
            config, options = config_from_json(command["config"]), options_from_json(command["options"])
            with self.run.judged_by(traced_checker(tracer)):
                engine.play(self.target, config, options, program, self.run)
        except (engine.HarnessError, Unsupported) as error:
            return {"survived": harmless(error)}
        finally:
            self.run.met = met
            os.close(tracer.file)
        return {"survived": ""}

    def do_look(self, _: dict[str, Any]) -> dict[str, Any]:
        """What of the judge isn't what it was before the target was loaded."""
        if self.fingerprint is None:
            return {"changes": ["a judge of which nothing is known"]}
        return {"changes": self.fingerprint.changes(self.run)}

    def do_mutant(self, command: dict[str, Any]) -> dict[str, Any]:
        """Play one mutant; the target that is loaded has nothing to do with it."""
        from kvlitmus.mutants import run as mutants_run

        return {
            "fate": asdict(mutants_run.run_mutant(command["id"], mutants_run.Effort(**command["effort"]), self.run))
        }

    def serve(self) -> None:
        """Do what the supervisor asks, until it hangs up."""
        for command in self.channel.lines():
            self.busy = True
            try:
                answer = getattr(self, f"do_{command['do']}")(command)
            except BaseException as error:  # noqa: BLE001 - the supervisor wants an answer
                answer = {"failed": f"the suite failed: {where(error)}"}
            self.busy = False
            self.channel.say(answer=answer)


def where(error: BaseException) -> str:
    """An exception and the place it comes from."""
    place, step = "", error.__traceback__
    while step is not None:
        place = f" ({Path(step.tb_frame.f_code.co_filename).name}, line {step.tb_lineno})"
        step = step.tb_next
    return raised_text(error) + harmless(place)


def described(target: Any) -> dict[str, Any]:
    """What a target says of itself; raises ``TypeError`` for what has not the promised form."""
    profile = getattr(target, "profile", None)
    if not callable(getattr(target, "make", None)):
        raise TypeError(f"a target must have make(config){_targets_in(target)}")
    if profile is None:
        raise TypeError(
            "a target must declare the choices that its cache makes: "
            "profile = Profile(...), of kvlitmus.conformance.ports"
        )
    if not isinstance(profile, Profile):
        raise TypeError(f"a target's profile must be a Profile (got {type_name(profile)})")
    verify("profile", PROFILE_VALUES, profile)  # once more: an object can be changed after it was made
    plain = describe(profile)
    configs = configs_of(target)
    for config in configs:
        if type(config) is not Config:
            raise TypeError(f"a target's configs must be Config objects, got {shown(config, 80)}")
    if len(configs) > MOST_CONFIGS:
        raise TypeError(f"a target's configs must be at most {MOST_CONFIGS} Config objects, got {len(configs):,}")
    versions = {"python": platform.python_version()}
    stated = getattr(target, "version", None)
    if isinstance(stated, str):
        versions["target"] = harmless(stated, 80)
    families = families_of(target)  # looks at what is declared, also where it has configs of its own
    return {
        "profile": plain,
        "configs": [to_json(config) for config in configs],
        "families": [] if getattr(target, "configs", None) else [to_json(family) for family in families.values()],
        "versions": versions,
    }


def limit_memory(megabytes: int) -> int:
    """Bound the address space of this process; a lower bound that it has already stays.  Returns the bound."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = megabytes << 20 if hard == resource.RLIM_INFINITY else min(megabytes << 20, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return most >> 20


def orphaned(commands: int, answers: int) -> None:
    """After a fork: the child of an adapter must not speak to the supervisor."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, commands, inheritable=False)
    os.dup2(null, answers, inheritable=False)


def main(arguments: Sequence[str]) -> NoReturn:
    """Serve on the private line; ``arguments``: plays and last words (both files are there), megabytes, the parent."""
    parent = Parent(arguments[3])
    commands, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.register_at_fork(after_in_child=lambda: orphaned(commands, answers))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plays = os.open(arguments[0], os.O_RDWR)
    words = os.open(arguments[1], os.O_WRONLY | os.O_APPEND)
    faulthandler.enable(words, all_threads=False)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    # Chained to the default action, which ends the process: a call that came back because of the signal, as C code
    # does when it isn't written with care, must not be followed by others that would then seem to have hung.
    faulthandler.register(signal.SIGUSR1, words, all_threads=True, chain=True)
    memory_mb = limit_memory(int(arguments[2])) if int(arguments[2]) else 0
    worker = Worker(Channel(commands, answers), plays, parent, memory_mb)
    Checker.interruptible = False
    threading.Thread(target=worker.beat, daemon=True, name="kvlitmus-beat").start()
    worker.serve()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
