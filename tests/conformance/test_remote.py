"""Caches behind a pipe: judged as in process, and what goes wrong with a process is a verdict, never a traceback."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.cli import main
from kvlitmus.conformance.isolation import worker_pool
from kvlitmus.conformance.isolation.remote import target as remote
from kvlitmus.conformance.isolation.remote.apart import APART, UNSEEN
from kvlitmus.conformance.isolation.remote.fault import RemoteFault
from kvlitmus.conformance.isolation.remote.process import Line, value_of
from kvlitmus.conformance.isolation.remote.target import RemoteTarget
from kvlitmus.conformance.isolation.supervisor import Limits, probe, run_items
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import PORTS, Config, Profile
from kvlitmus.conformance.ports.compose import with_requests
from kvlitmus.conformance.run import failures
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import suits
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.run.targets import TargetError, UnknownTarget, load_target, resolve_target
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.calls import LOOKS
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.words.units import Key
from tests.conformance.support import hostile, rude
from tests.conformance.support.messages import sent
from tests.support.processes import HELPERS, eventually, read_quietly

HERE = Path(__file__).parent / "support"
PAGE4 = Config(page_size=4)
ITEM = Item(kind="random", config=PAGE4, seed=1, ops=60)
OPTIONS = Options(reruns=0, shrink_trials=0)
STRAY = b"sleep\x00600.25\x00"


def program(script: str, *words: str) -> str:
    """The target that such a script is; it starts without what it doesn't need."""
    return f"exec:{sys.executable} -S {HERE / script} {' '.join(words)}"


def piped(name: str) -> RemoteTarget:
    """A target of Python's behind a pipe."""
    return RemoteTarget((sys.executable, str(HERE / "piped.py"), name))


def judged(kind: str, options: Options = OPTIONS) -> ItemResult:
    """What comes of a pool of such manners, in this process."""
    return run_item(load_target(resolve_target(program("rude.py", kind))), ITEM, options)


def children() -> set[int]:
    """The processes that this one has started and that are still there; helpers that end with it are none."""
    pids = map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    return {pid for pid in pids if not any(one.encode() in commanded(pid) for one in HELPERS)}


def commanded(pid: int) -> bytes:
    """The command line of a process; nothing of one that has ended."""
    return read_quietly(Path(f"/proc/{pid}/cmdline")).replace(b"\0", b" ")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No test leaves a process behind."""
    before = children()
    yield
    gc.collect()  # a cache that nobody holds lets go of its process
    eventually(lambda: children() <= before)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The messages that processes are sent."""
    return sent(monkeypatch)


# -- what goes wrong -----------------------------------------------------------------------------

FAULTS = {
    "exits": ("PORT-02", r"the call ended the process with exit status 7"),
    "crashes": ("PORT-02", r"the call ended the process by SIGSEGV"),
    "half-a-line": (
        "PORT-02",
        r'the call ended the process with exit status 0 in the middle of a line: {"answer": \[1,',
    ),
    "closes": ("PORT-02", r"the call closed its end of the line"),
    "leaves-a-child": ("PORT-02", r"the call ended the process with exit status 3"),
    "last-words": ("PORT-02", r"exit status 101; it had printed: .*panicked at cache\.rs:7.* ⏎ spam"),
    "rubbish": ("PORT-03", r"the call was answered with what is no JSON \(.*\): Segmentation fault \(just"),
    "no-text": ("PORT-03", r"the call was answered with what is no JSON"),
    "deep": ("PORT-03", r"the call was answered with what is no JSON"),
    "digits": ("PORT-03", r"the call was answered with what is no JSON"),
    "no-object": ("PORT-03", r"the call was answered with JSON that is no object: \[1, 2\]"),
    "no-answer": ("PORT-03", r'the call was answered by neither "answer" nor "raised": {}'),
    "twice": ("PORT-03", r'the call was answered more than once: {"answer": null}'),
    "endless": ("PORT-03", r"the call was answered with a line of more than 16 MiB: 9999"),
    "asks": ("PORT-03", r"the call was answered by asking for what the suite has not lent: {'ask': 'put'"),
    "asks-for-anything": ("PORT-03", r"the call was answered by asking for what is none of exists, get, put, "),
    "odd-looks": ("PORT-03", r"the call was answered with looks that are no object: 3"),
    "odd-change": ("PORT-03", r"the call was answered with a look at available that is not "),
    "odd-tag": ("PORT-03", r"the call was answered by what should be the answer of alloc to be a tagged value"),
    "text": ("PORT-03", r"expected a sequence of slots, got .* of type str"),
    "raises": ("PORT-01", r"the call raised RuntimeError: no memory"),
    "raises-exit": ("PORT-02", r"the call tried to end the process: it raised SystemExit: 3"),
    "raises-a-number": ("PORT-03", r'the call was answered by neither "answer" nor "raised"'),
}


@pytest.mark.parametrize(("kind", "rule", "text"), [(kind, *told) for kind, told in FAULTS.items()], ids=FAULTS)
def test_what_a_process_does_in_a_call_is_a_verdict(
    kind: str, rule: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvlitmus.conformance.isolation.remote.process.GRACE_SECONDS", 0.2 if kind == "closes" else 5.0)
    result = judged(kind)
    assert not result.error
    (finding,) = result.findings
    assert finding.rules == [rule]
    assert re.search(text, finding.detail), finding.detail
    assert finding.detail == harmless(finding.detail)
    assert finding.call.startswith(("alloc", "free", "available")) and result.steps > rude.CALLS / 3
    if kind == "leaves-a-child":
        eventually(lambda: not strays())


@pytest.mark.parametrize("kind", ["exits", "twice"])
def test_what_goes_wrong_at_the_first_look_is_a_verdict_of_every_cache(kind: str) -> None:
    """The next cache has a process of its own; it is looked at while it is made, and then by itself."""
    target = load_target(resolve_target(program("rude.py", f"look-{kind}")))
    for _ in range(2):
        result = run_item(target, ITEM, OPTIONS)
        assert not result.error
        (finding,) = result.findings
        assert finding.rules == [FAULTS[kind][0]] and re.search(
            FAULTS[kind][1].replace("the call", "available.."), finding.detail
        )


def strays(command: bytes = STRAY) -> list[Path]:
    """What a kind that leaves a child has left."""
    found = []
    for place in Path("/proc").iterdir():
        with suppress(OSError):
            found += [place] * (place.name.isdigit() and (place / "cmdline").read_bytes() == command)
    return found


def test_every_kind_is_tried() -> None:
    assert {*FAULTS, "hangs"} == {*rude.INSTEAD}


def test_a_fault_is_shrunk_like_any_other() -> None:
    (finding,) = judged("exits", Options(reruns=0, shrink_trials=30)).findings
    assert len(finding.schedule) < ITEM.ops
    assert finding.steps <= rude.CALLS + 1


def test_chatter_is_no_fault(capfd: pytest.CaptureFixture[str]) -> None:
    result = judged("chatters")
    assert (result.findings, result.error) == ([], "")
    assert capfd.readouterr().err.startswith("\x1b[2Jallocated\n"), "it goes where errors go"


@pytest.mark.nightly
def test_a_call_that_hangs_is_one_as_in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "\0".join((sys.executable, "-S", str(HERE / "rude.py"), "hangs", "")).encode()
    monkeypatch.setattr(worker_pool, "kill_marked", lambda _: None)  # at the end of the run
    limits = Limits(call_seconds=0.5, start_seconds=60.0, shrink_seconds=0.1, again_seconds=0.3)
    ref = resolve_target(program("rude.py", "hangs"))
    (result,) = run_items(ref, [ITEM], OPTIONS, limits=limits, state=tmp_path)
    (finding,) = result.findings
    assert finding.rules == ["PORT-02"]
    assert finding.detail.startswith("the call did not come back within 0.5 s")
    assert finding.call.startswith("alloc(")
    eventually(lambda: not strays(command), "it ends with the worker that asked it")


def test_looks_that_are_made_alone_come_with_no_answer(asked: list[Mapping[str, Any]]) -> None:
    """As when it is played again to find out which of the two has hung."""
    target = load_target(resolve_target(program("rude.py", "fine")))
    riding = []
    for alone in (frozenset[str](), frozenset({"available"}), LOOKS):
        target.look_alone(alone)
        asked.clear()
        assert not run_item(target, ITEM, OPTIONS).findings
        riding.append([one for one in asked if "looks" in one])
    assert len(riding[0]) > rude.CALLS and riding[1:] == [[], []]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "text"), [("exits_in_view", "view() ended"), ("exits", "the call ended")])
def test_what_ends_a_process_is_told_from_the_looks_that_come_with_it(name: str, text: str) -> None:
    item = Item(kind="random", config=PAGE4, seed=1, ops=60)
    target = piped(f"tests.conformance.support.hostile:{name}")
    (finding,) = run_item(target, item, Options(reruns=0, shrink_trials=2)).findings
    assert finding.rules == ["PORT-02"] and finding.detail == f"{text} the process with exit status 7"
    assert not target.look_alone(())


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["hangs_in_view", "hangs_asleep"])
def test_what_hangs_behind_a_pipe_is_told_as_in_process(name: str, tmp_path: Path) -> None:
    """The look or the call, and the rest is judged without it: looks come with answers, but not when it is told."""
    limits = Limits(call_seconds=0.5, start_seconds=60.0, shrink_seconds=0.1, again_seconds=0.3)
    items = [Item(kind="random", config=PAGE4, seed=seed, ops=120) for seed in range(2)]
    here = f"tests.conformance.support.hostile:{name}"
    told: list[object] = []
    for target in (here, f"exec:{sys.executable} {HERE / 'piped.py'} {here}"):
        state = tmp_path / str(len(told))
        results = [*run_items(resolve_target(target), items, OPTIONS, limits=limits, state=state)]
        found = [one for result in results for one in result.findings]
        told.append([(one.rules, one.call, len(one.calls), re.findall(r"\(in \w+\(\)", one.detail)) for one in found])
        assert all(result.steps > 30 and not result.error for result in results)
    assert told[0] == told[1]


# -- what a process says of itself ----------------------------------------------------------------

HELLOS = {
    "no-hello": r'the question \{"hello": …\} ended the process with exit status 2',
    "hello-rubbish": r"was answered with what is no JSON",
    "hello-no-ports": r"its ports must be a list of names \(got None\)",
    "hello-odd-port": r"there is no port 'pol'; did you mean 'pool'\?",
    "hello-raw": r"it can't have the port raw: over a pipe go no arrays of the caller's",
    "hello-odd-profile": r"its profile can't be read: .*reserved",
    "hello-odd-field": r"got the field 'prots'",
    "hello-refused": r"refuses: it speaks protocol 7, and was asked for 1; copy the protocol's part of the kit anew",
    "hello-later": r"speaks protocol 2, and kvlitmus \d+\.\d+\.\d+ speaks 1; copy the protocol's part of the kit anew",
    "hello-odd-protocol": r"speaks protocol '1', and kvlitmus",
    "hello-odd-configs": r"its configs can't be read: expected a list \(got 4\)",
}


@pytest.mark.parametrize(("kind", "text"), HELLOS.items(), ids=HELLOS)
def test_a_process_that_does_not_say_what_it_is_is_no_target(kind: str, text: str) -> None:
    with pytest.raises(TargetError, match=text):
        load_target(resolve_target(program("rude.py", kind)))


def test_every_hello_is_tried() -> None:
    assert HELLOS.keys() == rude.HELLOS.keys()


def test_a_cache_in_python_refuses_another_version_of_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PROTOCOL", 2)
    with pytest.raises(TargetError, match=r"refuses: it speaks protocol 1, and was asked for 2; copy the protocol"):
        piped("specimen")


def test_a_cache_that_can_not_be_made_is_no_finding() -> None:
    assert judged("make-dies").error == "making the cache ended the process with exit status 4"
    assert "was answered by neither" in judged("make-odd").error
    assert judged("declines").unsupported == "no\\x1b[31m thanks"


def test_looks_at_a_fresh_cache_come_with_it(asked: list[Mapping[str, Any]]) -> None:
    """Once it is known which: those that the first of such a configuration was asked for."""
    target = load_target(resolve_target(program("rude.py", "fine")))
    for _ in range(2):
        made: Any = target.make(PAGE4)
        assert [made.available(), made.available()] == [128, 128]
        del made
    assert [one.get("looks") for one in asked if "make" in one] == [None, ["available"]]
    assert [one["call"] for one in asked if "call" in one] == ["available"] * 3  # who looks again wants to see it anew


def test_a_look_comes_with_a_call_until_it_was_not_made_twice(asked: list[Mapping[str, Any]]) -> None:
    cache: Any = piped("examples/flat_cache.py").make(PAGE4)
    came = []
    for look in (True, True, False, True, False, False, True):
        slots = cache.alloc(4)
        assert cache.available() == 124
        asked.clear()
        cache.free(slots)
        assert not look or cache.available() == 128
        came.append([one.get("looks", []) for one in asked])
    assert came == [*[[["available"]]] * 6, [[], []]]


def test_who_composes_requests_takes_what_was_seen_since_the_last_call(asked: list[Mapping[str, Any]]) -> None:
    """It needs to know what is available, and asks for that only where nobody has looked."""
    cache: Any = piped("examples/flat_cache.py").make(PAGE4)
    requests = with_requests(cache, 4, Profile())
    for rid, looked in enumerate((False, True)):
        assert requests.begin(rid, Key(None, (1, 2, 3)))
        assert not looked or cache.available() == 116
        asked.clear()
        assert len(requests.grow(rid, (4, 5))) == 2
        assert [one["call"] for one in asked] == (["alloc"] if looked else ["available", "alloc"])
        requests.made_of()


def test_a_line_is_read_as_json_is() -> None:
    for text in ('{"a": 1}', '{"a": 1}\n', ' {"a": 1} \r\n', "7\n", "\t[1]"):
        assert value_of(text) == json.loads(text)
    for text in ("", "\n", "{} {}", '{"a": 1}x\n', "\ufeff{}", "{"):
        with pytest.raises(json.JSONDecodeError):
            value_of(text)


def test_what_a_process_fails_at_when_a_cache_is_looked_at_and_made_is_told_apart() -> None:
    """Not by the look: it fails at what it is to make, and the next one, which has made nothing yet, at nothing."""
    target = load_target(resolve_target(program("rude.py", "makes-two")))
    told = [run_item(target, ITEM, OPTIONS) for _ in range(2)]
    assert [one.error for one in told] == ["", "making the cache ended the process with exit status 4"]


def test_one_process_makes_one_cache_after_the_other() -> None:
    gc.disable()
    try:
        before, target = children(), load_target(resolve_target(program("rude.py", "fine")))
        for seed in range(4):
            assert not run_item(target, replace(ITEM, seed=seed, ops=5), OPTIONS).error
        assert len(children() - before) == 1
    finally:
        gc.enable()


def test_what_it_says_is_known_to_whoever_asks(tmp_path: Path) -> None:
    info = probe(resolve_target(program("rude.py", "fine")), state=tmp_path)
    assert info.versions["target"] == "7"
    assert info.configs == (PAGE4,)
    assert info.capabilities[PAGE4.label] >= {"pool", "piped"}


def test_a_command_is_words_and_no_shell_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "my cache"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(UnknownTarget, match=r"\./my cache: it can.t be executed"):
        resolve_target("exec:'./my cache'")
    script.chmod(0o755)
    assert resolve_target("exec:'./my cache' '$HOME' ;").command == (str(script), "$HOME", ";")
    for name, why in {
        "exec:": "expected exec:program",
        "exec:'x": "No closing quotation",
        "exec:no-such": "no such",
    }.items():
        with pytest.raises(UnknownTarget, match=why):
            resolve_target(name)


def test_an_answer_may_be_longer_than_a_pipe_and_so_may_a_question() -> None:
    echo = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
    line = Line((sys.executable, "-S", "-c", echo))
    long = {"key": "é" * 500_000}
    assert line.ask(long) == long
    line.close()


def test_what_nobody_asked_is_no_answer_to_the_next_question() -> None:
    program = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print(input(), flush=True)
signal.sigwait([signal.SIGUSR1])
print("{}", flush=True)
input()
"""
    line = Line((sys.executable, "-S", "-c", program))
    assert line.ask({"call": 1}) == {"call": 1}
    os.kill(line.pid, signal.SIGUSR1)
    assert line.poll.poll(60_000)
    with pytest.raises(RemoteFault, match=r"was made when the process had said what nobody asked: \{\}"):
        line.ask({"call": 2})


# -- bad manners of Python's, behind a pipe --------------------------------------------------------

OTHERWISE: dict[str, str] = {
    "slots_liar": "what a sequence holds is told, whatever it says of itself",
    **dict.fromkeys(("slots_exiting_class", "hashes_exiting_class"), "of an object only that it was one is told"),
    **dict.fromkeys(("changes_argument", "changes_argument_for_good", "changes_earlier"), "copies go over a pipe"),
    **dict.fromkeys(("everything", "claims"), "a process says which ports it has"),
    "makes_the_same": "a process says that it has made one",
    "profile_fields_wrong": "what is no profile is none on the line either",
}
"""Kinds that get another verdict over a pipe than in process, and why."""


def verdict_of(target: object, item: Item) -> tuple[list[list[str]], list[str], bool, bool]:
    """The rules that are broken and by which call, whether it could be judged, and whether it was declined."""
    result = run_item(target, item, OPTIONS)
    calls = [one.call.partition("(")[0] for one in result.findings]
    return [one.rules for one in result.findings], calls, bool(result.error), bool(result.unsupported)


def manners(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
    """What comes of a hostile kind in process, and over a pipe."""
    monkeypatch.setattr(Checker, "interruptible", False)
    item = Item(kind="random", config=PAGE4, seed=1, ops=200)
    return verdict_of(hostile.TARGETS[name], item), piped_verdict(name, item)


def piped_verdict(name: str, item: Item) -> object:
    """In a frame of its own: an exception that a kind keeps holds those that it was raised in, and what they have."""
    try:
        return verdict_of(piped(f"tests.conformance.support.hostile:{name}"), item)
    except TargetError:
        return [], [], True, False


@pytest.mark.parametrize("name", ["raises_quitter", "slots_fake_ints"])
def test_bad_manners_get_the_same_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = manners(name, monkeypatch)
    assert here == there


ENDS = (
    *(name for name in hostile.TARGETS if name.startswith("hangs")),
    *("make_hangs", "make_dies", "exits", "exits_in_hashes", "crashes", "kills_itself", "closes_descriptors"),
    *("exits_in_view", "leaves_a_child", "starts_threads", "patches_the_world"),
)
"""Kinds that end a process, or that a process of its own is for: ``test_remote_ends.py`` plays them."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(hostile.TARGETS.keys() - ENDS))
def test_all_bad_manners_get_a_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = manners(name, monkeypatch)
    assert (here == there) == (name not in OTHERWISE), (here, there)


# -- every place that takes a target ---------------------------------------------------------------

FINE, EXITS = program("rude.py", "fine"), program("rude.py", "exits")
SHORT = ("--steps", "60", "--no-litmus", "--jobs", "1")


def test_a_file_starts_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (finding,) = judged("exits").findings
    path = failures.save(tmp_path, finding, target=EXITS, depth=3, force_misuse=False, version="1")
    before = children()
    assert main(["replay", str(path)]) == 2
    assert children() <= before
    said = capsys.readouterr().err
    assert said.endswith(f"if you know it: kvlitmus replay {path} --target '{EXITS}'\n")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", FINE, *SHORT), 0, "every rule that applies holds"),
        (("run", FINE, *SHORT, "--on", "processes", "--shards", "2"), 0, "every rule that applies holds"),
        (("smoke", FINE), 0, "nothing broken"),
        (("fuzz", FINE, "--steps", "60", "--workers", "1", "--no-canary"), 0, "nothing was found that fails"),
        (("fuzz", EXITS, "--steps", "60", "--workers", "1", "--no-canary"), 1, "PORT-02"),
        (("compare", FINE, FINE, *SHORT), 0, "alike to their end"),
        (("compare", FINE, EXITS, *SHORT), 1, "by difference in law"),
    ],
)
def test_a_program_stands_wherever_a_target_does(
    words: Sequence[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*words]) == code
    assert said in capsys.readouterr().out


# -- judged as in process -------------------------------------------------------------------------

BY_DAY = ("extend-past-committed",)
"""Mutants that are played over a pipe by day; by night all are."""

SEEDS = range(6)

SAME_PORTS = replace(OPTIONS, without=frozenset(name for port in APART for name in PORTS[port]))
"""In process, too, without what can't go over a pipe, so that the same schedules are drawn."""

FAMILIES = sorted({one.module for one in all_mutants().values() if not one.null})


def items_for(mutant: Mutant) -> Iterator[Item]:
    """What may show a mutant: drawn schedules, then the tests that exercise its rules."""
    for config in mutant.configs:
        for seed in SEEDS:
            yield Item(kind="random", config=config, seed=seed, ops=60)
    for config in mutant.configs:
        for name, test in all_litmus().items():
            fits = suits(test, config, mutant.profile, force_misuse=False)
            if fits and not {*test.rules}.isdisjoint(mutant.kills):
                yield Item(kind="litmus", config=config, name=name)


def compared(mutant: Mutant) -> bool:
    """Play a mutant until it shows, and that over a pipe as well; whether it showed."""
    for item in items_for(mutant):
        here = run_item(mutant.target, item, SAME_PORTS)
        if here.findings and UNSEEN.keys().isdisjoint(here.findings[0].rules):
            there = run_item(piped(f"kvlitmus.mutants.run:by_name.{mutant.id.replace('-', '_')}"), item, SAME_PORTS)
            assert not there.error, mutant.id
            assert [one.rules for one in there.findings] == [one.rules for one in here.findings], mutant.id
            for one, other in zip(there.findings, here.findings, strict=True):
                assert abs(len(one.calls) - len(other.calls)) <= 1, mutant.id
            return True
    return False


@pytest.mark.parametrize("id", BY_DAY)
def test_a_mutant_is_found_over_a_pipe_by_the_same_rule_in_the_same_call(id: str) -> None:
    assert compared(all_mutants()[id])


OF_ONE_PROCESS = {
    "ties-by-address": "how ties are broken hangs on how many caches the process has made",
    "inner-node-becomes-a-gap": "the addresses of nodes decide in which order a set of them is gone through",
    "component-lent-by-handle": "a copy of what was handed out goes over a pipe, and nobody else changes that",
    "lent-by-handle": "a copy of what was handed out goes over a pipe, and nobody else changes that",
    "reset-clears-storage": "it reaches into the suite's storage, which lends a process its methods alone",
}
"""Mutants that may do otherwise in another process, and why."""


@pytest.mark.nightly
@pytest.mark.parametrize("family", FAMILIES)
def test_every_mutant_is_found_over_a_pipe_by_the_same_rule(family: str) -> None:
    mutants = [one for one in all_mutants().values() if one.module == family and not one.null]
    hidden = [one.id for one in mutants if one.id not in OF_ONE_PROCESS and not compared(one)]
    assert len(hidden) < len(mutants) or family.endswith(".misuse"), hidden


LEGAL_BY_DAY = ("null-component-writes-wait",)


@pytest.mark.parametrize(
    "id",
    [
        pytest.param(one.id, marks=[pytest.mark.nightly] * (one.id not in LEGAL_BY_DAY))
        for one in all_mutants().values()
        if one.null
    ],
)
def test_a_legal_cache_raises_no_alarm_over_a_pipe(id: str) -> None:
    legal = all_mutants()[id]
    target = piped(f"kvlitmus.mutants.run:by_name.{id.replace('-', '_')}")
    steps = 0
    for config in legal.configs[:2]:
        result = run_item(target, Item(kind="random", config=config, seed=0, ops=60), OPTIONS)
        assert (result.findings, result.error) == ([], "")
        steps += result.steps
    assert steps or result.unsupported
