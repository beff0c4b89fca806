"""Fingerprints: what changes what a definition does changes them; words, free names, folders and versions don't."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvlitmus.spec.law import fingerprint, modules
from kvlitmus.spec.law.fingerprint import Source, everything
from kvlitmus.spec.law.modules import ROOT, Place
from kvlitmus.spec.parts import all_rules

NUMBERS = itertools.count()

Plant = Callable[..., str]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Writes modules of kvlitmus; returns the fingerprint of what is called ``f``, or otherwise, in the last one."""
    found = [*sys.modules[ROOT].__path__]
    monkeypatch.setattr(sys.modules[ROOT], "__path__", [*found, str(tmp_path)])

    def planted(*texts: str, name: str = "f") -> str:
        here = f"planted_{next(NUMBERS)}"
        (tmp_path / here).mkdir()
        (tmp_path / here / "__init__.py").write_text("")
        for number, text in enumerate(texts):
            (tmp_path / here / f"m{number}.py").write_text(text.replace("HERE", f"{ROOT}.{here}"))
        return Source().at(Place(f"{ROOT}.{here}.m{len(texts) - 1}", name))

    return planted


LOOP = """
DEPTH = 3
def helper(state, most=2):
    return [one for one in state if one < most]
def f(state, *, least: int = 1) -> bool:
    total = 0
    for one in helper(state, most=4):
        total += one
    return total > least + DEPTH
"""
ALIKE = {
    "docstrings and comments": LOOP.replace("    total = 0", '    """Told."""\n    total = 0  # nothing yet'),
    "an attribute told": LOOP.replace("DEPTH = 3", 'DEPTH = 3\n"""How deep."""'),
    "formatting": LOOP.replace("helper(state, most=4)", "helper(\n        state,\n        most=(4),\n    )"),
    "annotations": LOOP.replace("state, most=2", 'state: "list[int]", most: int = 2').replace(
        "total = 0", "total: int = 0"
    ),
    "a constant renamed": LOOP.replace("DEPTH", "HOW_DEEP"),
    "a function renamed": LOOP.replace("helper", "below"),
    "a local renamed": LOOP.replace("total", "amount"),
    "one in a comprehension renamed": LOOP.replace("one for one in state if one <", "x for x in state if x <"),
    "parameters renamed, by name too": LOOP.replace("most", "limit").replace("state", "held"),
    "an order of definitions": LOOP.replace("DEPTH = 3\n", "") + "DEPTH = 3\n",
    "an import of what is not used": "import re\n" + LOOP,
    "what is for type checkers": "if TYPE_CHECKING:\n    from kvlitmus.spec.prefix.state import State\n" + LOOP,
}
OTHER = {
    "a constant": LOOP.replace("DEPTH = 3", "DEPTH = 4"),
    "a constant of another type": LOOP.replace("DEPTH = 3", "DEPTH = 3.0"),
    "an operator": LOOP.replace("total += one", "total -= one"),
    "a comparison": LOOP.replace("one < most", "one <= most"),
    "a default": LOOP.replace("most=2", "most=3"),
    "a default by name alone": LOOP.replace("int = 1", "int = 2"),
    "an argument": LOOP.replace("most=4", "most=5"),
    "another local": LOOP.replace("total > least", "one > least"),
    "a statement more": LOOP.replace("    return total", "    total = 2\n    return total"),
    "a helper's other result": LOOP.replace("[one for", "[-one for"),
    "another helper": LOOP.replace("for one in helper(state, most=4)", "for one in sorted(state)"),
    "the places of parameters": LOOP.replace("helper(state, most=2)", "helper(most, state=2)"),
}


@pytest.mark.parametrize("text", ALIKE.values(), ids=ALIKE)
def test_words_and_free_names_are_no_part_of_it(plant: Plant, text: str) -> None:
    assert text != LOOP and plant(text) == plant(LOOP)


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER)
def test_what_is_done_is(plant: Plant, text: str) -> None:
    assert text != LOOP and plant(text) != plant(LOOP)


def test_a_function_may_move_and_be_reached_in_any_way(plant: Plant) -> None:
    helper, f = LOOP[: LOOP.index("def f")], LOOP[LOOP.index("def f") :]
    ways = [
        plant(helper, "from HERE.m0 import DEPTH, helper\n" + f),
        plant(helper, "from HERE.m0 import DEPTH, helper as again\n" + f.replace("helper", "again")),
        plant(helper, "from HERE import m0\n" + f.replace("helper", "m0.helper").replace("DEPTH", "m0.DEPTH")),
        plant(helper, "import HERE.m0\n" + f.replace("helper", "HERE.m0.helper").replace("DEPTH", "HERE.m0.DEPTH")),
        plant(helper, "from HERE.m0 import *\nfrom HERE.m0 import DEPTH, helper\n" + f),
        plant(helper, "from HERE.m0 import DEPTH, helper", "from HERE.m1 import DEPTH, helper\n" + f),
        plant(helper, f.replace("    total = 0", "    from HERE.m0 import DEPTH, helper\n    total = 0")),
    ]
    assert ways == [plant(LOOP)] * len(ways)
    other = helper.replace("<", ">")
    assert plant(other, "from HERE.m0 import DEPTH, helper\n" + f) != plant(LOOP)


CIRCLE = "def f(n):\n    return n and g(n - 1)\ndef g(n):\n    return n or h(n + 1)\ndef h(n):\n    return f(n)\n"


def test_functions_that_call_each_other_in_a_circle(plant: Plant) -> None:
    assert plant(CIRCLE) == plant(CIRCLE.replace("g(", "other(").replace("h(", "third("))
    changes = [
        CIRCLE,
        CIRCLE.replace("n - 1", "n - 2"),
        CIRCLE.replace("n + 1", "n + 2"),
        CIRCLE.replace("f(n)\n", "g(n)\n"),
    ]
    for name in "fgh":
        assert len({plant(text, name=name) for text in changes}) == len(changes), name


CLASS = """
class Held(NamedTuple):
    pages: int
    locked: bool = False
    def room(self, most=3, *, least=0):
        def inner(x):
            return x + most
        return max(inner(self.pages), least)
def f(pages):
    held = Held(pages, locked=True)
    match held:
        case Held(pages=some, locked=True):
            return some
        case [first, *rest]:
            return rest
        case {"a": 1, **more}:
            return more
        case other:
            return other.room(most=2)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("held", "kept"), ("some", "many"), ("rest", "tail"), ("more", "others"), ("x + most", 'x + most  # "x"'),
     ("other", "last"), ("    pages: int", '    """Told."""\n\n    pages: int\n    """How many."""')],
)  # fmt: skip
def test_what_a_class_keeps_to_itself_is_no_part_of_it(plant: Plant, old: str, new: str) -> None:
    assert plant(CLASS.replace(old, new)) == plant(CLASS)


@pytest.mark.parametrize(
    ("old", "new"),
    [("False", "True"), ("x + most", "x - most"), ("most=2", "least=2"), ("room", "space"), ("Held", "Kept"),
     ("locked=True):", "locked=False):"), ("[first, *rest]", "[*rest, first]"), ('"a": 1', '"a": 2'),
     ("pages: int\n    locked: bool = False", "locked: bool = False\n    pages: int = 0"), ("(NamedTuple)", "(Tuple)")],
)  # fmt: skip
def test_what_is_seen_of_a_class_is(plant: Plant, old: str, new: str) -> None:
    """Its name, fields and methods too: they may be looked up by name."""
    assert plant(CLASS.replace(old, new)) != plant(CLASS)


def test_parameters_that_are_given_by_name_from_anywhere_count_by_name(plant: Plant) -> None:
    """Exchanged names are another function for those who call it by name."""
    method = "class C:\n    def m(self, a, b):\n        return a - b\ndef f(c: C):\n    return C().m(a=1, b=2)\n"
    assert plant(method) != plant(method.replace("self, a, b", "self, b, a").replace("a - b", "b - a"))
    value = "def g(*, a, b):\n    return a - b\ndef f():\n    return partial(g, a=1, b=2)\n"
    assert plant(value) != plant(value.replace("*, a, b", "*, b, a").replace("a - b", "b - a"))
    known = value.replace("partial(g, a=1, b=2)", "g(a=1, b=2)")
    assert plant(known) != plant(known.replace("*, a, b", "*, b, a").replace("a - b", "b - a"))
    assert plant(known) == plant(known.replace("a", "c").replace("def f", "def f"))


def test_the_name_of_a_module_stands_for_what_is_in_it(plant: Plant) -> None:
    worker = "def f():\n    return run('HERE.m0')\n"
    assert plant("def main():\n    return 1\n", worker) == plant("def start():\n    return 1\n", worker)
    assert plant("def main():\n    return 1\n", worker) != plant("def main():\n    return 2\n", worker)
    assert plant("x = 1\n", "LISTED = ('m0',)\ndef f():\n    return LISTED\n") == plant(
        "x = 1\n", "x = 1\n", "LISTED = ('m0', 'm1')\ndef f():\n    return LISTED\n"
    )


def test_a_decorator_that_registers_says_nothing_also_where_a_part_was_said_before(plant: Plant) -> None:
    said = "plan_rule = partial(rule, on=1)\ngate_rule = functools.partial(plan_rule, source='a')\n"
    bare = "def f(started):\n    return started\n"
    assert plant(said + "@gate_rule('A-01', allowed='x')\n" + bare) == plant("@rule('A-02')\n" + bare) == plant(bare)
    other = said.replace("partial(rule", "partial(cached")
    assert plant(other + "@gate_rule('A-01')\n" + bare) != plant(bare) != plant("@plan_rule('A-01')\n" + bare)


def test_what_a_module_does_is_part_of_what_is_made_in_it(plant: Plant) -> None:
    text = "def f(case):\n    return lambda: case\nfor one in (1, 2):\n    add(f(one))\n"
    assert plant(text) == plant(text.replace("2", "3")), "by itself"
    assert plant(text, name="!") != plant(text.replace("2", "3"), name="!")
    assert plant(text, name="*") != plant(text.replace("2", "3"), name="*")


def changed_by(monkeypatch: pytest.MonkeyPatch, module: str, old: str, new: str) -> set[str]:
    """The rules whose digests are other ones where a module has another text."""
    before = {id: rule.digest for id, rule in all_rules().items()}
    path = modules.path_of(module)
    assert path is not None
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    planted = modules.Module(module, text.replace(old, new), is_package=False)
    read = modules.module_of
    for place in (modules, fingerprint):
        monkeypatch.setattr(place, "module_of", lambda name: planted if name == module else read(name))
    caches = (modules.resolved, fingerprint.code_of, everything)
    try:
        for one in caches:
            one.cache_clear()
        return {id for id, rule in all_rules().items() if rule.digest != before[id]}
    finally:
        monkeypatch.undo()
        for one in caches:
            one.cache_clear()


def test_a_helper_that_a_fact_calls_decides_the_rules_that_speak_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = changed_by(monkeypatch, "kvlitmus.spec.words.schemes", "hashlib.sha256(data)", "hashlib.sha512(data)")
    assert {"HASH-01"} <= hashed and not {id for id in hashed if id.startswith(("LOCK", "SPARSE", "RANKS"))}


def test_a_fact_that_is_told_otherwise_changes_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "kvlitmus.spec.prefix.components.tree"
    said, otherwise = "How many entries of each component were evicted.", "The entries of each component that went."
    assert not changed_by(monkeypatch, module, said, otherwise)
