"""The kits: a cache in each language passes its packs over the pipe, and a slip in it is found as it is in process."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.history.compare.compared import LAW
from kvlitmus.conformance.isolation.remote import process
from kvlitmus.conformance.isolation.remote import target as remote
from kvlitmus.conformance.isolation.remote.kits import KITS, kit_folder
from kvlitmus.conformance.isolation.remote.target import RemoteTarget
from kvlitmus.conformance.isolation.supervisor import run_items
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import configs_of
from kvlitmus.conformance.run.plan import items as plan_items
from kvlitmus.conformance.run.results import Finding, Item, Options
from kvlitmus.conformance.run.targets import TargetError, resolve_target
from tests.conformance.support.kits import TWINS, built, find_tools, twin
from tests.conformance.support.side_by_side import drawn, side_by_side
from tests.support.night import by_turns

CONFIGS = (Config(page_size=4, pages=16), Config())

MOST = 150
"""Lines of the protocol in a kit, JSON left out where the language has no library for it."""

OPTIONS = Options(reruns=0, shrink_trials=60, shrink_seconds=60.0)

OF_GUIDE: Mapping[str, str] = {"cpp": "host-tier", "rust": "block-table", "go": "radix-tree", "ts": "radix-tree"}

RADIX = {
    "split-unlocked": {
        "upper.last_access, upper.lock_ref = node.last_access, node.lock_ref": "upper.last_access = node.last_access"
    },
    "evicts-the-locked": {"if not node.children and not node.lock_ref": "if not node.children"},
    "loses-pages": {"self.free_pages += leaf.pages": "pass"},
}

SLIPS: Mapping[str, Mapping[str, dict[str, str]]] = {
    "cpp": {
        "evicts-its-own": {"len(self.device_free), path)": "len(self.device_free))"},
        "evicts-the-locked": {"{*spared, *(page for page in self.pages.values() if page.locks)}": "{*spared}"},
        "no-copy": {"self.host[page.host] = list(self.device[page.device])": "pass"},
        "one-tenant": {
            "self.pages.get((tenant, tokens[:end]))": "self.pages.get((None, tokens[:end]))",
            "prefix = (tenant, tokens[": "prefix = (None, tokens[",
        },
    },
    "rust": {
        "no-salt": {"found, before = list[str](), repr(salt)": 'found, before = list[str](), ""'},
        "frees-heads-first": {"in reversed(blocks)": "in blocks"},
        "still-found": {"            if block.hash:\n": "            if False:\n"},
    },
    "go": RADIX,
    "ts": RADIX,
}
"""Slips of a kit's cache, each as a change of the Python that the cache is after."""

EACH_SLIP = [(lang, slip) for lang, slips in SLIPS.items() for slip in slips]
"""By day one of each language."""

SEEDS: Mapping[str, int] = {"evicts-its-own": 33, "split-unlocked": 1}
"""The seed of a schedule that shows a slip; 0 where it isn't here."""


@pytest.fixture(autouse=True)
def _processes_end() -> Iterator[None]:
    """A cache that nobody holds lets go of its process."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def commands() -> dict[str, tuple[str, ...]]:
    """The commands of what has been built, by language."""
    return {}


@pytest.fixture(params=list(KITS))
def lang(request: pytest.FixtureRequest) -> str:
    """One language after the other."""
    return str(request.param)


@pytest.fixture
def command(
    lang: str,
    commands: dict[str, tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[str, ...]:
    """The command of a kit's cache, which is built once."""
    find_tools(monkeypatch)
    if lang not in commands:
        commands[lang] = built(lang, tmp_path_factory.mktemp("kit"))
    return commands[lang]


def test_a_kit_is_short(lang: str) -> None:
    (protocol,) = [path for path in kit_folder(lang).iterdir() if path.stem == "kvlitmus"]
    assert len(protocol.read_text(encoding="utf-8").splitlines()) <= MOST


def test_another_version_of_the_protocol_is_refused(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kit where the suite speaks a later one, and by the suite where the kit does."""
    with monkeypatch.context() as patch:
        patch.setattr(remote, "PROTOCOL", 2)
        with pytest.raises(TargetError, match=r"refuses: it speaks protocol 1, and was asked for 2; copy the protocol"):
            RemoteTarget(command)
    line = process.Line(command)
    told = line.ask({"hello": {"protocol": 1}})
    line.close()
    hello = told["hello"]
    assert told["protocol"] == 1 and isinstance(hello, dict) and "ports" in hello


def test_a_cache_keeps_the_rules(command: tuple[str, ...]) -> None:
    target = RemoteTarget(command)
    for config in target.configs or CONFIGS:
        result = run_item(target, Item(kind="random", config=config, seed=3, ops=60), OPTIONS)
        assert (result.findings, result.error, result.unsupported) == ([], "", "")
        assert result.evaluated["POOL-12"] > 30


@pytest.mark.nightly
def test_a_cache_passes_its_packs(command: tuple[str, ...], tmp_path: Path) -> None:
    target = RemoteTarget(command)
    items = plan_items(configs_of(target), target.profile, steps=1500)
    for result in run_items(resolve_target(f"exec:{' '.join(command)}"), items, OPTIONS, jobs=2, state=tmp_path):
        assert (result.findings, result.error) == ([], "")


@pytest.mark.parametrize(("lang", "slip"), by_turns(EACH_SLIP, every=5))
def test_a_slip_is_found_as_in_process(
    lang: str, slip: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = twin(OF_GUIDE[lang], monkeypatch, SLIPS[lang][slip])
    there = RemoteTarget((*command, "--slip", slip))
    item = Item(kind="random", config=(there.configs or CONFIGS)[0], seed=SEEDS.get(slip, 0), ops=100)
    one, other = found(here, item), found(there, item)
    assert one.rules[0] == other.rules[0]
    assert abs(len(one.calls) - len(other.calls)) <= 1


def test_a_cache_is_the_one_that_it_is_after(
    lang: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = twin(OF_GUIDE[lang], monkeypatch, {}), RemoteTarget(command)
    for config in there.configs or CONFIGS:
        outcome = side_by_side(here, there, drawn(config))
        assert outcome.parting is None and outcome.steps > 50


@pytest.mark.parametrize(("lang", "slip"), by_turns(EACH_SLIP, every=5))
def test_a_slip_parts_a_copy_from_the_cache_and_is_explained(
    slip: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, copy = RemoteTarget(command), RemoteTarget((*command, "--slip", slip))
    outcome = side_by_side(cache, copy, drawn((cache.configs or CONFIGS)[0], SEEDS.get(slip, 0), 100))
    assert outcome.parting is not None and outcome.breach is not None
    assert outcome.kind == LAW and outcome.breach.side == "B"
    assert 0 <= outcome.breach.step - outcome.parting.step <= 2


@pytest.fixture
def go_and_ts(
    commands: dict[str, tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """One design in two languages, as the command line names them."""
    find_tools(monkeypatch)
    for lang in ("go", "ts"):
        if lang not in commands:
            commands[lang] = built(lang, tmp_path_factory.mktemp("kit"))
    return f"exec:{' '.join(commands['go'])}", f"exec:{' '.join(commands['ts'])}"


@pytest.mark.nightly
def test_two_kits_of_one_design_do_not_part(go_and_ts: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *go_and_ts, "--steps", "1000", "--color", "never"]) == 0
    alike, of = re.findall(r"alike to their end in (\d+) of (\d+) items", capsys.readouterr().out)[0]
    assert alike == of and int(of) > 100


@pytest.mark.nightly
@pytest.mark.parametrize("side", ["A", "B"])
@pytest.mark.parametrize("slip", RADIX)
def test_a_changed_copy_of_either_parts_from_the_other(
    slip: str, side: str, go_and_ts: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (f"{word} --slip {slip}" if side == name else word for name, word in zip("AB", go_and_ts, strict=True))
    words = ["--config", "page_size=4,policy=lru", "--steps", "1000", "--color", "never"]
    assert main(["compare", one, other, *words]) == 1
    out = capsys.readouterr().out
    assert f"{LAW}: {side} breaks " in out and f"{LAW}: {'AB'.replace(side, '')} breaks " not in out


def found(target: object, item: Item) -> Finding:
    """What is found of a target by one schedule, shrunk."""
    (finding,) = run_item(target, item, OPTIONS).findings
    return finding


def test_a_kit_replaces_nothing_unless_it_may(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cache.cpp").write_text("mine")
    assert main(["init-adapter", "--lang", "cpp", str(tmp_path)]) == 2
    assert "cache.cpp exists; --force replaces it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["cache.cpp"]
    assert main(["init-adapter", "--lang", "cpp", str(tmp_path), "--force"]) == 0
    assert "kvlitmus run exec:./cache" in capsys.readouterr().out
    assert main(["init-adapter", "--lang", "cpp", "--ports", "pool"]) == 2
    assert main(["init-adapter", "--lang", "cpp", str(tmp_path / "cache.cpp")]) == 2


def test_every_kit_has_a_guide() -> None:
    assert OF_GUIDE.keys() == KITS.keys()
    assert {*OF_GUIDE.values()} == TWINS.keys()
