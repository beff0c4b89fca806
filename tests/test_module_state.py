"""State of modules: what is filled or replaced after a module has been imported has a reason, or isn't there.

A value that is handed down can be looked at, and two runs in one process don't meet in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.test_layout import ROOMS, ROOT

_REGISTER = "a register: decorators fill it when the modules of its entries are imported, and nothing changes it then"
_PROCESS = "it belongs to the process, as what it keeps does"
KNOWN = {
    "spec/kvlitmus/spec/law/facts.py FACTS": _REGISTER,
    "spec/kvlitmus/spec/law/rule.py RULES": _REGISTER,
    **{
        f"spec/kvlitmus/spec/law/occasions.py {name}": _REGISTER for name in ("PLAIN", "JOINT", "BY_ANSWER", "BY_STATE")
    },
    "conformance/kvlitmus/conformance/generate/actions/registry.py ACTIONS": _REGISTER,
    "conformance/kvlitmus/conformance/litmus/registry.py LITMUS": _REGISTER,
    "conformance/kvlitmus/conformance/checker/judge.py PLANS": "a memo: a plan depends on its key alone",
    "spec/kvlitmus/spec/prefix/judged_step.py KNOWN": "a memo: the causes depend on occasions and profile alone",
    "conformance/kvlitmus/conformance/support/ending.py Asked": "signals come to the process, whoever runs in it",
    "conformance/kvlitmus/conformance/adapters/stores/scratch.py _pipes": _PROCESS,
    "conformance/kvlitmus/conformance/adapters/sglang/common/steps.py Stream": "as torch.cuda's current stream",
    "conformance/kvlitmus/conformance/adapters/sglang/v0_5_13/hisparse_server.py Copies": _PROCESS,
    "optimized/kvlitmus/optimized/data/lane.py _LEFT": _PROCESS,
    "optimized/kvlitmus/optimized/sha.py _digests": "which digest this machine computes fastest, found out once",
}
"""State of modules, each with its reason."""

EMPTY = ("dict", "list", "set", "Counter", "deque", "defaultdict", "OrderedDict")


def states_of(tree: ast.Module) -> Iterator[str]:
    """Names of a module that begin empty, that a function replaces, and classes of which one sets what they have."""
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        fresh = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in EMPTY
        if (
            (isinstance(value, ast.Dict) and not value.keys)
            or (isinstance(value, ast.List) and not value.elts)
            or (fresh and isinstance(value, ast.Call) and not value.args)
        ):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            yield ast.unparse(target)
    for inner in ast.walk(tree):
        if isinstance(inner, ast.Global):
            yield from inner.names
        if isinstance(inner, ast.Assign):
            owners = [
                target.value for one in inner.targets for target in _parts(one) if isinstance(target, ast.Attribute)
            ]
            yield from (owner.id for owner in owners if isinstance(owner, ast.Name) and owner.id in classes)


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def states(root: Path) -> set[str]:
    """All state of modules in the rooms."""
    return {
        f"{path.relative_to(root).as_posix()} {name}"
        for room in ROOMS
        for path in sorted((root / room).rglob("*.py"))
        for name in states_of(ast.parse(path.read_text(encoding="utf-8")))
    }


def test_no_module_keeps_state_without_a_reason() -> None:
    assert states(ROOT) == KNOWN.keys()


def test_planted_state_is_found(tmp_path: Path) -> None:
    path = tmp_path / "spec/kvlitmus/spec/planted.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "class Run:\n    plays = 0\n\n\nSEEN: dict[int, int] = {}\nNAMES = Counter()\nLIMIT = 3\nlast = None\n\n\n"
        "def note(it):\n    global last\n    last = it\n    Run.plays = 1\n    own = {}\n"
    )
    found = {one.rpartition(" ")[2] for one in states(tmp_path)}
    assert found == {"SEEN", "NAMES", "last", "Run"}
