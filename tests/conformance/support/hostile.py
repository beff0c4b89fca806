"""Hostile adapters: specimens with one thing wrong that is no cache bug but bad manners.

Each is a target.  ``TARGETS`` has them by name; the module has them as attributes too, so that a
worker finds them as ``hostile:name``.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Sizes, Stored, Unsupported, View
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE, Parts

liars: Any = importlib.import_module(f"{__package__}.liars" if __package__ else "liars")
"""A worker finds this module, and that one, without their package."""

BAD_TEXT = "\x1b[2J\x1b]0;owned\x07\n| a | b |\n<script>alert(1)</script> [x](javascript:1) `\u202e\x00 \ud800"
BAD_PROFILE = Profile()
object.__setattr__(BAD_PROFILE, "misuse", BAD_TEXT)

PORT_METHODS = (
    "alloc", "free", "available", "alloc_extend", "alloc_decode", "free_group_begin", "free_group_end", "match",
    "insert", "lock", "unlock", "evict", "begin", "grow", "publish", "end", "sizes", "view", "reset", "page_hashes",
    "plan_prefetch",
)  # fmt: skip


LOOKS = ("available", "sizes", "view")
"""Methods that are called once before the first judged call."""


class Target:
    """A target whose caches are specimens with other methods; they misbehave once they are ``armed``."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        self.methods = methods
        self.profile: Any = PROFILE

    def make(self, config: Config) -> Any:
        specimen = type("Hostile", (Specimen,), {"__init__": _init})(config)
        for name, method in self.methods.items():
            setattr(specimen, name, _Bound(specimen, name, method))
        return specimen


def _init(self: Specimen, config: Config) -> None:
    Specimen.__init__(self, config, Parts(), PROFILE)


class _Bound:
    """A method that knows the lawful one: ``method(cache, lawful, *args)``."""

    def __init__(self, cache: Specimen, name: str, method: Callable[..., Any]) -> None:
        self.cache = cache
        self.lawful = getattr(cache, name)
        self.method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.method(self.cache, lambda: self.lawful(*args, **kwargs), *args, **kwargs)


def does(act: Callable[[], object]) -> Callable[..., Any]:
    """A method that does something else first."""

    def method(cache: Specimen, lawful: Callable[[], Any], *_: Any, **__: Any) -> Any:
        act()
        return lawful()

    return method


def answers(value: Callable[[Any], object]) -> Callable[..., Any]:
    """A method that answers something made from the lawful answer."""
    return lambda cache, lawful, *_, **__: value(lawful())


def later(act: Callable[[], object], calls: int = 3) -> Callable[..., Any]:
    """A method that behaves for some calls and then does something else first."""

    def method(cache: Specimen, lawful: Callable[[], Any], *_: Any, **__: Any) -> Any:
        cache.__dict__["calls_seen"] = cache.__dict__.get("calls_seen", 0) + 1
        if cache.__dict__["calls_seen"] > calls:
            act()
        return lawful()

    return method


def throw(error: BaseException | type[BaseException]) -> Callable[..., NoReturn]:
    def act(*_: object) -> NoReturn:
        raise error

    return act


def endless() -> Iterator[int]:
    while True:
        yield 4


def busy() -> NoReturn:
    while True:
        pass


def blocked_in_c() -> None:
    ctypes.PyDLL(None).pause()  # PyDLL keeps the interpreter's lock: no Python thread runs any more


def flood() -> None:
    os.write(1, b'{"answer": {"result": 1}}\n' * 2_000)
    os.write(2, b"\x1b[31m" * 2_000)
    sys.stdout.write("spam\n" * 1_000)
    sys.stdout.flush()


def subprocess_prints() -> None:
    subprocess.run([sys.executable, "-S", "-c", "print('{\"answer\": {}}')"], check=True)


def leave_a_child() -> None:
    subprocess.Popen(["sleep", "600.125"], start_new_session=True)
    os._exit(3)


def patch_the_world() -> None:
    time.monotonic = lambda: 0.0
    time.time = lambda: 0.0
    time.sleep = lambda _: None
    random.Random.randbytes = lambda self, n: b"\0" * n  # type: ignore[method-assign]
    sys.stdout = None


def close_descriptors() -> None:
    os.closerange(3, 256)


def start_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(1_000,)).start()


def eat_memory() -> None:
    bytearray(1 << 40)


# -- arguments, earlier answers, snapshots ------------------------------------------------------


def changes_argument(cache: Specimen, lawful: Callable[[], Any], *args: Any, **_: Any) -> Any:
    answer = lawful()
    args[-1].append(liars.NeverEqual())
    return answer


def changes_argument_for_good(cache: Specimen, lawful: Callable[[], Any], *args: Any, **_: Any) -> Any:
    answer = lawful()
    args[-1][:] = [liars.ExitingEqual()]
    return answer


def changes_earlier(cache: Specimen, lawful: Callable[[], Any], *_: Any, **__: Any) -> Any:
    answer = list(lawful() or ())
    kept = cache.__dict__.setdefault("earlier", [])
    for old in kept:
        old[:] = [liars.NeverEqual()]
    kept.append(answer)
    return answer or None


def view_with(**changes: Any) -> Callable[..., Any]:
    """A snapshot in which the last node has other fields."""

    def change(view: View) -> View:
        nodes = list(view.nodes)
        if nodes:
            nodes[-1] = nodes[-1]._replace(**changes)
        return View(view.free, nodes)

    return answers(change)


NODE = NodeView(-1, None, (1,) * 4, (4, 5, 6, 7))


def view_that_allocates(cache: Specimen, lawful: Callable[[], Any]) -> Any:
    cache.__dict__["looks"] = cache.__dict__.get("looks", 0) + 1
    if cache.__dict__["looks"] > 5:
        cache.pool.alloc(cache.config.page_size)
    return lawful()


# -- targets that are odd as a whole ------------------------------------------------------------


class Everything:
    """Answers to every name."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


class Anything(Target):
    """A target that makes what it likes."""

    def __init__(self, make: Callable[[Config], object], profile: object = PROFILE) -> None:
        super().__init__()
        self.make_it = make
        self.profile = profile

    def make(self, config: Config) -> Any:
        return self.make_it(config)


class Same(Target):
    """A target that makes one cache, and hands it out for ever."""

    cache: Any = None

    def make(self, config: Config) -> Any:
        self.cache = self.cache or Specimen(config, Parts(), PROFILE)
        return self.cache


class DyingProperty(Specimen):
    @property
    def match(self) -> Any:
        raise KeyError("no match today")


class Claims(Target):
    """Says that it has ports which its caches lack."""

    capabilities = frozenset({"pool", "tree", "locks"})

    def make(self, config: Config) -> Any:
        return Pool(config)


class Pool:
    """A pool and nothing else."""

    def __init__(self, config: Config) -> None:
        self.specimen = Specimen(config, Parts(), PROFILE)
        self.alloc, self.free, self.available = self.specimen.alloc, self.specimen.free, self.specimen.available


TARGETS: dict[str, Any] = {
    **{
        f"raises_{method}": Target(**{method: later(throw(RuntimeError(BAD_TEXT)), int(method in LOOKS))})
        for method in PORT_METHODS
    },
    "raises_base": Target(alloc=does(throw(liars.Odd("odd")))),
    "raises_interrupt": Target(alloc=does(throw(KeyboardInterrupt))),
    "raises_stop": Target(match=does(throw(StopIteration))),
    "raises_generator_exit": Target(match=does(throw(GeneratorExit))),
    "raises_recursion": Target(match=does(throw(RecursionError("deep")))),
    "raises_memory": Target(match=does(eat_memory)),
    "raises_lying": Target(match=does(throw(liars.ExitingError("odd")))),
    "raises_mute": Target(match=does(throw(liars.Mute()))),
    "raises_quitter": Target(match=does(throw(liars.Quitter()))),
    "raises_huge_text": Target(match=does(throw(ValueError("y" * 50_000_000)))),
    "raises_exit": Target(match=does(throw(SystemExit(5)))),
    "raises_exit_in_view": Target(view=later(throw(SystemExit(5)))),
    "not_implemented": Target(match=does(throw(NotImplementedError(BAD_TEXT)))),
    "not_implemented_view": Target(view=later(throw(NotImplementedError(BAD_TEXT)))),
    "not_implemented_hashes": Target(page_hashes=does(throw(NotImplementedError(BAD_TEXT)))),
    # wrong answers
    "slots_text": Target(alloc=answers(lambda _: "abc")),
    "slots_bytes": Target(alloc=answers(lambda _: b"abc")),
    "slots_dict": Target(alloc=answers(lambda _: {1: 2})),
    "slots_number": Target(alloc=answers(lambda _: 7)),
    "slots_floats": Target(alloc=answers(lambda slots: slots and [float(slot) for slot in slots])),
    "slots_fake_ints": Target(alloc=answers(lambda slots: slots and [liars.FakeInt(slot) for slot in slots])),
    "slots_bools": Target(alloc=answers(lambda slots: slots and [True for _ in slots])),
    "slots_endless": Target(alloc=answers(lambda _: endless())),
    "slots_liar": Target(alloc=answers(lambda slots: liars.Liar(slots or ()))),
    "slots_huge": Target(alloc=answers(lambda slots: slots and [10**5000 for _ in slots])),
    "slots_negative": Target(alloc=answers(lambda slots: slots and [-slot for slot in slots])),
    "slots_repeated": Target(alloc=answers(lambda slots: slots and [slots[0] for _ in slots])),
    "slots_no_repr": Target(alloc=answers(lambda _: [liars.NoRepr()])),
    "slots_long_repr": Target(alloc=answers(lambda _: [liars.LongRepr()])),
    "slots_fake_class": Target(alloc=answers(lambda _: liars.FakeClass())),
    "slots_exiting_class": Target(alloc=answers(lambda _: liars.ExitingClass())),
    "hit_exiting_class": Target(match=answers(lambda _: liars.ExitingClass())),
    "view_exiting_class": Target(view=answers(lambda _: liars.ExitingClass())),
    "view_units_exiting": Target(view=view_with(units=(liars.ExitingClass(),) * 4)),
    "view_namespace_exiting": Target(view=view_with(namespace=liars.ExitingClass())),
    "hashes_exiting_class": Target(page_hashes=answers(lambda _: liars.ExitingClass())),
    "plan_exiting_class": Target(plan_prefetch=answers(lambda _: liars.ExitingClass())),
    "hit_none": Target(match=answers(lambda _: None)),
    "hit_lying_tuple": Target(match=answers(lambda hit: liars.LyingTuple(("a", *hit[1:])))),
    "hit_nan": Target(match=answers(lambda hit: Hit(float("nan"), hit[1], hit[2]))),  # type: ignore[arg-type]
    "hit_no_repr": Target(match=answers(lambda hit: Hit(liars.NoRepr(), hit[1], hit[2]))),
    "stored_text": Target(insert=answers(lambda _: Stored(BAD_TEXT))),  # type: ignore[arg-type]
    "stored_list": Target(insert=answers(list)),
    "evicted_none": Target(evict=answers(lambda _: None)),
    "evicted_bool": Target(evict=answers(lambda _: True)),
    "begun_text": Target(begin=answers(lambda begun: begun and Begun(begun.row, BAD_TEXT))),  # type: ignore[arg-type]
    "available_float": Target(available=answers(float)),
    "sizes_none": Target(sizes=answers(lambda _: None)),
    "sizes_huge": Target(sizes=answers(lambda _: Sizes(10**5000, 0))),
    "sizes_endless": Target(sizes=answers(lambda _: endless())),
    "hashes_text": Target(page_hashes=answers(lambda _: "abc")),
    "plan_none": Target(plan_prefetch=answers(lambda _: None)),
    # arguments and earlier answers
    "changes_argument": Target(free=changes_argument),
    "changes_argument_for_good": Target(free=changes_argument_for_good),
    "changes_earlier": Target(alloc=changes_earlier),
    # snapshots
    "view_none": Target(view=answers(lambda _: None)),
    "view_cycle": Target(view=answers(lambda view: View(view.free, [NODE._replace(parent=0)]))),
    "view_parent_far": Target(view=view_with(parent=10**6)),
    "view_parent_nan": Target(view=view_with(parent=float("nan"))),
    "view_parent_text": Target(view=view_with(parent=BAD_TEXT)),
    "view_slots_text": Target(view=view_with(slots=BAD_TEXT)),
    "view_units_unhashable": Target(view=view_with(units=([1], [2]))),
    "view_units_nan": Target(view=view_with(units=(float("nan"),) * 4)),
    "view_namespace_object": Target(view=view_with(namespace=liars.NoRepr())),
    "view_namespace_text": Target(view=view_with(namespace=BAD_TEXT)),
    "view_locks_text": Target(view=view_with(locks="many")),
    "view_not_tuple": Target(view=answers(lambda view: [view.free, view.nodes])),
    "view_rows_short": Target(view=answers(lambda view: View(view.free, [(1, 2)]))),  # type: ignore[list-item]
    "view_endless": Target(view=answers(lambda view: View(endless(), ()))),  # type: ignore[arg-type]
    "view_enormous": Target(view=answers(lambda view: View(view.free, [NODE] * 1_000_000))),
    "view_free_text": Target(view=answers(lambda view: View(["x"], view.nodes))),  # type: ignore[list-item]
    "view_changes_cache": Target(view=view_that_allocates),
    # odd as a whole
    "everything": Anything(lambda _: Everything()),
    "makes_the_same": Same(),
    "makes_none": Anything(lambda _: None),
    "make_raises": Anything(throw(ValueError(BAD_TEXT))),
    "make_exits": Anything(throw(SystemExit(3))),
    "declines": Anything(throw(Unsupported(BAD_TEXT))),
    "declines_mute": Anything(throw(Unsupported(liars.NoRepr()))),
    "dying_property": Anything(lambda config: DyingProperty(config, Parts(), PROFILE)),
    "claims": Claims(),
    "make_hangs": Anything(lambda _: time.sleep(1_000)),
    "make_dies": Anything(lambda _: os._exit(4)),
    "profile_wrong": Anything(Pool, profile={"reserved": 1}),
    "profile_fields_wrong": Anything(Pool, profile=BAD_PROFILE),
    "harmless": Target(),
    # what ends a process, and what never ends
    "hangs_asleep": Target(evict=later(lambda: time.sleep(1_000), 1)),
    "hangs_busy": Target(evict=later(busy, 1)),
    "hangs_in_c": Target(evict=later(blocked_in_c, 1)),
    "hangs_in_view": Target(view=later(lambda: time.sleep(1_000), 20)),
    "exits": Target(insert=does(lambda: os._exit(7))),
    "exits_in_hashes": Target(page_hashes=does(lambda: os._exit(7))),
    "exits_in_view": Target(view=later(lambda: os._exit(7), 20)),
    "crashes": Target(match=later(lambda: ctypes.string_at(0), 4)),
    "kills_itself": Target(end=does(lambda: os.kill(os.getpid(), signal.SIGKILL))),
    "closes_descriptors": Target(insert=does(close_descriptors)),
    "leaves_a_child": Target(evict=does(leave_a_child)),
    # noise, which is no fault
    "prints": Target(alloc=does(flood), match=does(flood)),
    "child_prints": Target(evict=does(subprocess_prints)),
    "patches_the_world": Target(alloc=does(patch_the_world)),
    "starts_threads": Target(reset=does(start_a_thread)),
}

globals().update(TARGETS)
