"""Adapters that are written for somebody: clean, complete, honest while empty, and judged once they are filled in."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.cli.commands import smoke
from kvlitmus.conformance.cli.commands.session import Session
from kvlitmus.conformance.ports import PORTS, Config, Profile, Unsupported, capabilities_of, template
from kvlitmus.conformance.ports.template import PAGES, READ_BY, Port, all_ports, generate
from kvlitmus.conformance.ports.template_words import WIDTH
from kvlitmus.conformance.report.form import rows
from kvlitmus.conformance.run.engine import UNFILLED, run_item
from kvlitmus.conformance.run.plan import configs_of
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.spec.interface import cache
from tests.test_layout import ROOT

Capture = pytest.CaptureFixture[str]

FEW = ["--page-size", "1,4", "--steps", "250", "--jobs", "1", "--color", "never"]


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def methods(source: str) -> dict[str, ast.FunctionDef]:
    """The methods of all adapters in a generated file, without ``__init__``."""
    kinds = [one for one in ast.parse(source).body if isinstance(one, ast.ClassDef) and not one.name.endswith("Target")]
    found = [one for kind in kinds for one in kind.body if isinstance(one, ast.FunctionDef) and one.name != "__init__"]
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


class Fill(ast.NodeTransformer):
    """Fills an adapter in: each method that isn't hands its own arguments on to a specimen."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if isinstance(node.target, ast.Name) and node.target.id == "DOES":
            node.value = ast.Dict([], [])  # it does everything
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name == "__init__":
            node.body += ast.parse(
                "from kvlitmus.conformance.specimen.cache import target\nself._cache = target.make(config)"
            ).body
        elif isinstance(node.body[-1], ast.Raise) and "is not filled in" in ast.unparse(node.body[-1]):
            given = [one.arg for one in node.args.args[1:]] + [f"{one.arg}={one.arg}" for one in node.args.kwonlyargs]
            node.body[-1] = ast.parse(f"return self._cache.{node.name}({', '.join(given)})").body[0]
        return node


def fill(path: Path, profile: str) -> None:
    """Fill a generated file in, and declare a profile."""
    tree = Fill().visit(ast.parse(path.read_text(encoding="utf-8")))
    text = ast.unparse(ast.fix_missing_locations(tree))
    assert "is not filled in" not in text
    assert text.count("misuse='undefined'") == text.count("store_put='either'") == 1
    text = text.replace("misuse='undefined'", profile).replace("hash_scheme='other', ", "")
    path.write_text(text.replace("store_put='either'", "store_put='first'"), encoding="utf-8")


def offered() -> list[str]:
    """The ports that the specimen has, in any configuration."""
    having = {port for config in configs_of(specimen) for port in capabilities_of(specimen.make(config))}
    return [port for port in PORTS if port in having]


@pytest.mark.nightly
def test_a_filled_in_adapter_is_judged_as_the_cache_behind_it(capsys: Capture) -> None:
    """As a cache, as a hierarchy, as a page store and as a sparse host pool."""
    assert {"pool", "tree", "tiers", "store", "sparse"} <= set(offered())
    assert main(["init-adapter", "filled_cache.py", "--ports", ",".join(offered())]) == 0
    assert "kvlitmus run filled_cache:target" in capsys.readouterr().out
    fill(Path("filled_cache.py"), "misuse='reject', hash_scheme='kvlitmus-2'")
    seen = []
    few = ["--page-size", "2,16", "--steps", "250", "--jobs", "1", "--color", "never"]
    for target in ("filled_cache:target", "specimen"):
        code = main(["run", target, *few, "--report", "r.json"])
        data = json.loads(Path("r.json").read_text())
        labels = [(one["label"], one["steps"]) for one in data["configs"]]
        seen.append((code, labels, {one["id"]: (one["verdict"], one["evaluations"]) for one in rows(data)}))
    assert seen[0] == seen[1]
    assert seen[0][0] == 0, capsys.readouterr().out
    assert any("host=" in label for label, _ in seen[0][1])
    assert any("store" in label for label, _ in seen[0][1])
    assert any("sparse" in label for label, _ in seen[0][1])


@pytest.mark.nightly
def test_what_is_filled_in_wrong_is_found(capsys: Capture) -> None:
    assert main(["init-adapter", "wrong_cache.py", "--ports", ",".join(offered())]) == 0
    path = Path("wrong_cache.py")
    fill(path, "misuse='reject', hash_scheme='kvlitmus-2'")
    right = "return self._cache.alloc(n)"
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, "return (self._cache.alloc(n) or [])[1:]"))
    assert main(["run", "wrong_cache:target", *FEW, "--no-litmus", "--pack", "pool"]) == 1
    assert "POOL-01 violated" in capsys.readouterr().out


@pytest.mark.parametrize(
    "chosen",
    ["pool", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("all", "tree", "tiers", "store", "sparse"))],
)
def test_an_adapter_that_is_not_filled_in_says_so(chosen: str, capsys: Capture) -> None:
    assert main(["init-adapter", f"empty_{chosen}.py", "--ports", chosen]) == 0
    assert main(["run", f"empty_{chosen}:target", *FEW]) == 3
    seen = capsys.readouterr()
    assert "is not filled in" in seen.out + seen.err
    assert "Traceback" not in seen.out + seen.err
    assert main(["smoke", f"empty_{chosen}:target", "--color", "never"]) == 3
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("errors", "hint"),
    [
        ([f"alloc(1): {UNFILLED}mine: alloc is not filled in"] * 2, "fill in what is named above"),
        ([f"alloc(1): {UNFILLED}mine: alloc is not filled in", "no such device"], "the cache can't be made at all"),
        (["no such device", ""], ""),
    ],
)
def test_smoke_knows_what_is_not_filled_in_from_what_cant_be_made(errors: list[str], hint: str) -> None:
    found = cast(Session, SimpleNamespace(capabilities=frozenset(("inspect",)), profile=Profile()))
    results = [ItemResult(item="", config="", error=error) for error in errors]
    assert [line.partition(",")[0].partition(";")[0] for line in smoke.hints(found, results)] == [hint] * bool(hint)


@pytest.mark.parametrize(("more", "hosted"), [("", False), (",component_host,component_host_view", True)])
def test_a_cache_of_components_with_host_memory_is_judged_there(more: str, hosted: bool, capsys: Capture) -> None:
    name = f"layers_{hosted}".lower()
    assert main(["init-adapter", f"{name}.py", "--ports", "component_lookup,components,component_view" + more]) == 0
    capsys.readouterr()
    spec = importlib.util.spec_from_file_location(name, f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    target = module.target
    assert any(config.host_pages for config in configs_of(target)) == hosted
    assert all(config.components for config in configs_of(target))


def test_the_module_alone_is_enough_to_name_its_target(capsys: Capture) -> None:
    """It has one target."""
    assert main(["init-adapter", "mine.py"]) == 0
    for name in ("mine", "mine.py"):
        assert main(["run", name, *FEW]) == 3
        assert "is not filled in" in capsys.readouterr().err


def test_every_port_and_every_method_is_written() -> None:
    assert list(all_ports()) == list(PORTS)
    written = methods(generate("a", "a", list(all_ports().values())))
    assert list(written) == [method for names in PORTS.values() for method in names]
    for port in all_ports().values():
        assert port.about, port.name
        for name in port.methods:
            method = vars(port.protocol)[name]
            assert ast.get_docstring(written[name]), name
            given = [*written[name].args.args, *written[name].args.kwonlyargs]
            assert tuple(one.arg for one in given) == method.__code__.co_varnames[: len(given)], name


@pytest.mark.parametrize(("more", "whole"), [(0, True), (1, False)])
def test_what_fits_no_line_is_told_up_to_its_semicolon(more: int, whole: bool) -> None:
    def asked(self: object) -> None:
        raise NotImplementedError

    line = f'        """Short; {"x" * (WIDTH - 22 + more)}."""'
    asked.__doc__ = line.strip(' "')
    assert list(template.method_lines(asked, "mine", {}))[1] == (line if whole else '        """Short."""')


def test_every_choice_is_written_where_a_port_reads_it() -> None:
    """All of them for all ports; for some ports those that their rules read."""

    def written(*names: str) -> tuple[object, list[str]]:
        chosen = [one for one in all_ports().values() if not names or one.name in names]
        text = generate("a", "a", chosen)
        space: dict[str, object] = {}
        exec(compile(text, "a.py", "exec", dont_inherit=True), space)
        return space["target"].profile, re.findall(r"^        (\w+)=", text, re.MULTILINE)  # type: ignore[attr-defined]

    fields = [field.name for field in dataclasses.fields(Profile)]
    assert written() == (Profile(), fields)
    assert READ_BY.keys() <= set(fields) and {port for ports in READ_BY.values() for port in ports} <= PORTS.keys()
    for ports, read, unread in (
        (["pool"], {"reserved", "align", "misuse"}, {"match_cap", "clock", "store_put", "attach"}),
        (["pool", "tree", "locks", "evict"], {"duplicates", "hit_counts", "lock_touches"}, {"attach", "sparse_count"}),
        (["store"], {"store_put", "store_checks"}, {"reserved", "sparse_count"}),
        (["components"], {"component_order", "window_root", "duplicates"}, {"attach", "hit_counts"}),
        (["components"], set(), {"component_landing", "component_fetch_window", "component_extent"}),
        (["component_lookup"], {"match_cap"}, {"match_ends"}),
        (["component_host"], {"component_landing", "component_extent"}, {"component_shortfall"}),
    ):
        profile, named = written(*ports)
        assert profile == Profile() and read <= set(named) and unread.isdisjoint(named)


@pytest.mark.parametrize("family", PAGES)
def test_an_adapter_names_the_page_about_its_ports(family: str) -> None:
    text = generate("a", "a", [one for one in all_ports().values() if one.family == family])
    assert (ROOT / PAGES[family]).is_file()
    assert set(re.findall(r"docs/[a-z]+\.md", text)) - {"docs/choices.md"} == {PAGES[family]}


def test_an_adapter_of_the_usual_ports_is_short() -> None:
    """What a newcomer reads at once: at most 130 lines for a flat cache that can be looked at."""
    assert main(["init-adapter", "short.py"]) == 0
    assert len(Path("short.py").read_text().splitlines()) <= 130
    assert "view" in methods(Path("short.py").read_text()), "without it one bug is a dozen broken rules"


POOL = """
def _init(self, config):
    self.config, self.pages = config, list(range(1, config.pages + 1))
def _alloc(self, n):
    size = self.config.page_size
    if n > len(self.pages) * size:
        return None
    return [page * size + at for page in [self.pages.pop() for _ in range(n // size)] for at in range(size)]
def _free(self, slots):
    self.pages += [slot // self.config.page_size for slot in slots[:: self.config.page_size]]
def _available(self):
    return len(self.pages) * self.config.page_size
for name in ("alloc", "free", "available"):
    setattr(AllocatorAdapter, name, globals()[f"_{name}"])
AllocatorAdapter.__init__ = _init
"""


def written_target(name: str, ports: str, more: str = "") -> Any:
    """The target of a file that was written for these ports, with more behind it."""
    text = generate(name, name, [all_ports()[port] for port in ports.split(",")])
    space: dict[str, Any] = {}
    exec(compile(text + more, f"{name}.py", "exec", dont_inherit=True), space)
    return space["target"]


def test_a_correct_pool_of_the_usual_choices_is_not_accused() -> None:
    """It has pages from 1 on, as the profile says; a host pool, which has them from 0, it doesn't do."""
    target = written_target("allocator", "pool", POOL)
    played = 0
    for config in configs_of(target):
        result = run_item(target, Item(kind="random", config=config, seed=1, ops=30), Options())
        assert not result.findings and not result.error, (config.label, result.findings)
        assert bool(result.unsupported) == (config.policy != "lru" or config.bigram or config.pool == "host")
        played += result.steps
    assert played > 80


def test_a_pool_that_takes_a_host_pool_for_a_device_is_told_so() -> None:
    """Its pages begin at 1 there, too: the accusation says that the configuration is another one."""
    text = POOL + 'DOES = {**DOES, "pool": ("device", "host")}\n'
    item = Item(kind="random", config=Config(page_size=4, pool="host"), seed=1, ops=30)
    found = run_item(written_target("allocator", "pool", text), item, Options()).findings[0]
    assert found.rules[0] == "POOL-06"
    assert found.allowed.endswith("this configuration is a host pool, pages from 0")


@pytest.mark.parametrize("ports", ["pool", "pool,tree,locks,evict,tiers,host,data", "tiers,host", "pool,store,tiers"])
def test_what_a_written_adapter_does_not_say_that_it_does_is_declined(ports: str) -> None:
    """Each of the usual values alone is accepted; any other one is declined, and its reason names it."""
    target = written_target("anything", ports)
    usual = Config(pages=12, host_pages=8 if "tiers" in ports else 0)
    assert target.make(usual)
    others: list[tuple[str, object]] = [("policy", "lfu"), ("bigram", True), ("pool", "host"), ("pool", "ranks")]
    if "tiers" in ports:
        others += [("write", "write_back"), ("write", "write_through_selective"), ("storage", "attached")]
    for name, value in others:
        with pytest.raises(Unsupported, match=f"{name}='?{value}"):
            target.make(dataclasses.replace(usual, **{name: value}))  # type: ignore[arg-type]


def test_a_port_that_is_added_later_is_written_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Journal(Protocol):
        """What was written, in order."""

        def entries(
            self, since: float = 0.5, *, kind: str = "it's", most: tuple[int, ...] = (1,)
        ) -> Sequence[Config] | None:
            """All of them, from ``since`` on; see :class:`~kvlitmus.conformance.ports.Config`."""

    monkeypatch.setattr(cache, "Journal", Journal, raising=False)
    monkeypatch.setitem(PORTS, "journal", ("entries",))
    text = generate("a", "a", [all_ports()["journal"]])
    compile(text, "a.py", "exec")
    joined = " ".join(text.split())
    assert """def entries( self, since: float = 0.5, *, kind: str = "it's", most: tuple[int, ...] = (1,),""" in joined
    assert "All of them, from since on; see Config." in joined
    assert "from collections.abc import Container, Mapping, Sequence" in text
    assert ast.unparse(methods(text)["entries"].returns or ast.Pass()) == "Sequence[Config] | None"


def test_a_port_without_a_protocol_is_not_left_out_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PORTS, "journal", ("no_protocol_has_this",))
    with pytest.raises(LookupError, match="journal"):
        all_ports()


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is in the extra 'lint'")
def test_what_is_written_is_clean() -> None:
    """By strict types, by the linter's own rules and by this project's, formatted for short lines and for long ones."""
    files = {"one.py": "all", "three.py": "host,tiers", "four.py": "store,store_crash", "five.py": "pool,store,tiers"}
    for name, chosen in files.items():
        assert main(["init-adapter", name, "--ports", chosen]) == 0
    assert main(["init-adapter", "sub/two.py", "--name", "My engine 2.0"]) == 0
    mypy_path = os.pathsep.join(str(ROOT / room) for room in ("spec", "reference", "conformance"))
    tool = [sys.executable, "-m"]
    for command in (
        [*tool, "mypy", "--strict", "--namespace-packages", "--explicit-package-bases", *files, "sub/two.py"],
        [*tool, "ruff", "check", "--isolated", "."],
        [*tool, "ruff", "check", "--config", str(ROOT / "pyproject.toml"), "."],
        [*tool, "ruff", "format", "--isolated", "--check", "."],
        [*tool, "ruff", "format", "--config", str(ROOT / "pyproject.toml"), "--check", "."],
    ):
        done = subprocess.run(
            command, env={**os.environ, "MYPYPATH": mypy_path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["a_cache.py", "--ports", "pol"], "there is no port 'pol'; did you mean 'pool'? (there are pool, extend,"),
        (["a_cache.py", "--ports", "pool,alloc"], "there is no port 'alloc'; alloc is a method of 'pool'"),
        (["a_cache.py", "--ports", ","], "--ports names no port"),
        (["a_cache.txt"], "the name must end in .py"),
        (["my-cache.py"], "'my-cache' can't be imported; try my_cache.py"),
        (["1st.py"], "try st.py"),
        (["class.py"], "try class_.py"),
        (["queue.py"], "it would hide the module 'queue'; try queue_adapter.py"),
        (["kvlitmus.py"], "it would hide the module 'kvlitmus'"),
        (["a_cache.py", "--name", 'x"; import os'], "a name begins with a letter"),
        (["there.py"], "there.py exists; --force replaces it"),
        (["folder.py"], "folder.py is a folder"),
        (["there.py/a_cache.py"], "there.py"),
        (["exec:./cache"], "exec:./cache is a program that is there already"),
        (["exec:./cache", "--lang", "cpp"], "exec:./cache is a program that is there already"),
    ],
)
def test_what_can_not_be_written_is_refused_in_one_line(words: list[str], complaint: str, capsys: Capture) -> None:
    Path("there.py").write_text("mine")
    Path("folder.py").mkdir()
    before = sorted(Path().rglob("*"))
    assert main(["init-adapter", *words]) == 2
    seen = capsys.readouterr()
    assert complaint in seen.err
    assert seen.err.count("\n") == 1
    assert not seen.out
    assert sorted(Path().rglob("*")) == before
    assert Path("there.py").read_text() == "mine"


def test_force_replaces_and_the_name_is_free() -> None:
    Path("old_adapter.py").write_text("mine")
    assert main(["init-adapter", "old_adapter.py", "--force", "--name", "gen.x"]) == 0
    text = Path("old_adapter.py").read_text()
    assert "class GenXAdapter:" in text
    assert main(["init-adapter"]) == 0
    assert "class CacheAdapter:" in Path("cache_adapter.py").read_text()


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("a_cache.py", ["kvlitmus run a_cache:target"]),
        ("sub/a_cache.py", ["kvlitmus run sub.a_cache:target"]),
        ("sub-x/a_cache.py", ["cd sub-x && kvlitmus run a_cache:target"]),
    ],
)
def test_what_it_says_comes_next_works(path: str, lines: list[str], capsys: Capture) -> None:
    assert main(["init-adapter", path, "--ports", "pool"]) == 0
    said = capsys.readouterr().out
    for line in lines:
        assert line in said
    folder, _, name = lines[0].rpartition("kvlitmus run ")
    if folder:
        os.chdir(folder.split()[1])
    assert main(["run", name, "--list", "--pack", "port"]) == 3
    assert f"{name.partition('.')[2].partition(':')[0] or 'a_cache'}" in said
    assert "available is not filled in" in capsys.readouterr().err


def test_the_list_names_every_port(capsys: Capture) -> None:
    assert main(["init-adapter", "--list"]) == 0
    out = capsys.readouterr().out
    for port, names in PORTS.items():
        assert f"{port:<12} {', '.join(names)}\n" in out


def test_a_port_knows_what_it_is_about() -> None:
    class Two(Protocol):
        """First.  Second.

        Third.
        """

    assert Port("two", Two, ()).about == "First.  Second."
