"""Fingerprints: what a definition does, as a few hex digits, whatever it is called, wherever it stands, however it is told.

Two definitions with the same fingerprint do the same.  What counts: the code of a definition, and of everything in
kvlitmus that it refers to, through any number of references.  What doesn't: comments, docstrings, formatting, type
annotations, import statements, and names that can be chosen freely (of functions and constants of a module, of
parameters and local variables, of modules and folders).  A name of a module counts by what it stands for, a local one by
its place; names of attributes, methods and classes count as they are, since they may be looked up by name.

The walk over the syntax tree is written out here, so that every version of Python from 3.11 on gives the same digits.

Not seen: that two parameters of a function exchange their names where it is called by these names through a variable.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from kvlitmus.spec.law.modules import (
    EFFECTS,
    ROOT,
    WHOLE,
    Module,
    Place,
    function_at,
    imports,
    is_for_types,
    is_nothing,
    module_of,
    path_of,
    resolved,
    targets,
)

DIGITS = 12
REGISTERING = ("fact", "rule", "litmus", "action")
"""Decorators that note a function elsewhere and return it unchanged: what they note is digested where it is used."""

SKIPPED = ("ctx", "type_comment", "type_params", "kind", "annotation", "returns", "simple")
"""Fields of nodes that change nothing that runs."""

Functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehensions = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Code(NamedTuple):
    """A definition by itself: its code without names, and in their order the definitions that it refers to."""

    text: str
    refers: tuple[Place, ...]


def digest(text: str) -> str:
    """The digest of a text, shortened."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


@cache
def code_of(place: Place) -> Code:
    """A definition, read; of a module as a whole what its definitions are, in any order."""
    module = module_of(place.module)
    if module is None:
        return Code("missing", ())
    if place.name != EFFECTS and place.name not in module.bound:
        refers = [Place(place.module, name) for name in module.bound]
        return Code("module", (*refers, *[Place(place.module, EFFECTS)] * bool(module.effects)))
    walk = Walk(module)
    if place.name == EFFECTS:
        walk.statements(module.effects)
    else:
        for statement in module.bound[place.name]:
            walk.definition(place.name, statement)
    return Code("\0".join(walk.parts), tuple(walk.refers))


class Scope(NamedTuple):
    """What names mean within a function, comprehension or class: local ones by their places, or imported ones."""

    places: Mapping[str, int]
    imported: Mapping[str, str]
    is_class: bool = False
    foreign: frozenset[str] = frozenset()


class Walk(ast.NodeVisitor):
    """Writes down code without the names that may be chosen freely."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.parts: list[str] = []
        self.refers: list[Place] = []
        self.scopes: list[Scope] = []

    def definition(self, name: str, statement: ast.stmt) -> None:
        """A definition of the module, without its name; the name of a class counts."""
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            self.decorators(statement.decorator_list)
            self.function(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            names = targets(statement)
            self.parts.append(f"value {names.index(name)} of {len(names)}")
            if statement.value is not None and not self._lists_modules(statement.value):
                self.visit(statement.value)
        else:
            self.visit(statement)

    def _lists_modules(self, value: ast.expr) -> bool:
        """Whether this lists modules beside this one, by name: what they hold counts where it is used."""
        return (
            isinstance(value, ast.Tuple)
            and bool(value.elts)
            and all(
                isinstance(one, ast.Constant)
                and isinstance(one.value, str)
                and path_of(f"{self.module.package}.{one.value}") is not None
                for one in value.elts
            )
        )

    def decorators(self, listed: Iterable[ast.expr]) -> None:
        """Decorators, without those that only register."""
        for one in listed:
            called = one.func if isinstance(one, ast.Call) else one
            if not (isinstance(called, ast.Name) and self.registers(called.id)):
                self.parts.append("@")
                self.visit(one)

    def registers(self, name: str) -> bool:
        """Whether a decorator of this name only registers; also one of which the module has said a part before."""
        match self.module.bound.get(name):
            case [
                ast.Assign(
                    value=ast.Call(func=ast.Name(id="partial") | ast.Attribute(attr="partial"), args=[ast.Name(id=of)])
                )
            ]:
                return self.registers(of)
        return name in REGISTERING

    def statements(self, block: Iterable[ast.stmt]) -> None:
        """The statements of a block that do something."""
        self.parts.append("{")
        for one in block:
            if not (is_for_types(one) or (is_nothing(one) and not isinstance(one, ast.If))):
                self.visit(one)
        self.parts.append("}")

    def generic_visit(self, node: ast.AST) -> None:
        """A node by its fields."""
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self.comprehension(node)
            return
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
            return  # what names mean is known already
        self.parts.append(type(node).__name__)
        for field in node._fields:
            value = getattr(node, field, None)
            if field in SKIPPED or value is None or value == []:
                continue
            self.parts.append(f"{field}=")
            self.value(value)
        self.parts.append(".")

    def value(self, value: Any) -> None:
        """The value of a field."""
        if isinstance(value, ast.AST):
            self.visit(value)
        elif isinstance(value, list):
            if value and isinstance(value[0], ast.stmt):
                self.statements(value)
                return
            self.parts.append("[")
            for one in value:
                self.value(one)
            self.parts.append("]")
        else:
            self.parts.append(ascii(value))

    def refer(self, place: Place) -> None:
        """A reference to a definition of kvlitmus."""
        self.parts.append("&")
        self.refers.append(place)

    # What names mean.

    def local(self, name: str) -> str | None:
        """What a name stands for in the scopes around: a place, or what it was imported as; ``None`` for none."""
        for depth in range(len(self.scopes) - 1, -1, -1):
            scope = self.scopes[depth]
            if name in scope.foreign:
                continue
            if name in scope.imported:
                return scope.imported[name]
            if name in scope.places and (not scope.is_class or depth == len(self.scopes) - 1):
                return f".{name}" if scope.is_class else f".{depth}.{scope.places[name]}"
        return None

    def meaning(self, node: ast.expr) -> str | Place:
        """What a name or an attribute of a module stands for: a place, a full name, or a local one (with a dot first)."""
        if isinstance(node, ast.Attribute):
            held = self.full(node)
            return resolved(held) if held is not None else ""
        assert isinstance(node, ast.Name)
        here = self.local(node.id)
        if here is not None:
            return here if here.startswith(".") else resolved(here)
        if node.id in self.module.bound:
            return Place(self.module.name, node.id)
        if node.id in self.module.imported:
            return resolved(self.module.imported[node.id])
        return node.id

    def full(self, node: ast.expr) -> str | None:
        """The full name of something in a module that was imported, or ``None``."""
        if isinstance(node, ast.Attribute):
            held = self.full(node.value)
            if held is None or not (held.partition(".")[0] != ROOT or path_of(held) or held == ROOT):
                return None
            return f"{held}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        here = self.local(node.id)
        if here is not None:
            return None if here.startswith(".") else here
        if node.id in self.module.bound:
            return None
        return self.module.imported.get(node.id)

    def visit_Name(self, node: ast.Name) -> None:
        """A name that is used as a value."""
        self.named(self.meaning(node))

    def named(self, meaning: str | Place) -> None:
        """What a name means; of a function that is handed on, what it may be called by counts too."""
        if not isinstance(meaning, Place):
            self.parts.append(meaning)
            return
        self.refer(meaning)
        function = function_at(meaning)
        if function is not None and function.args.kwonlyargs:
            self.parts.append(" ".join(one.arg for one in function.args.kwonlyargs))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """An attribute: of a module what it stands for, of anything else its name."""
        meaning = self.meaning(node)
        if meaning:
            self.named(meaning)
            if isinstance(meaning, Place) and meaning.name == WHOLE:
                self.parts.append(node.attr if not path_of(self.full(node) or "") else "")
            return
        self.parts.append(f"attribute {node.attr}")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """A call; arguments by name go to the places of the parameters, where it is known which function is called."""
        meaning = self.meaning(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
        function = function_at(meaning) if isinstance(meaning, Place) else None
        self.parts.append("call")
        if function is None:
            self.visit(node.func)
        else:
            assert isinstance(meaning, Place)
            self.refer(meaning)
        places = parameters(function.args) if function is not None else []
        for one in node.args:
            self.visit(one)
        for given in node.keywords:
            self.parts.append(f"{places.index(given.arg)}:" if given.arg in places else f"{given.arg}:")
            self.visit(given.value)
        self.parts.append(")")

    def visit_Constant(self, node: ast.Constant) -> None:
        """A constant; the name of a module stands for what is in it."""
        if isinstance(node.value, str) and node.value.startswith(f"{ROOT}.") and " " not in node.value:
            self.parts.append("module")
            if path_of(node.value) is not None:
                self.refer(Place(node.value, WHOLE))
            return
        self.parts.append(f"{type(node.value).__name__} {node.value!a}")

    # Scopes.

    def function(self, node: Functions, *, names: bool = False) -> None:
        """A function from its parameters on; ``names``: whether it may be called by these, from anywhere."""
        arguments = node.args
        self.parts.append(
            f"{type(node).__name__} {len(arguments.posonlyargs)} {len(arguments.args)} {len(arguments.kwonlyargs)} "
            f"{arguments.vararg is not None} {arguments.kwarg is not None}"
        )
        if names:
            self.parts.append(" ".join(one for one in parameters(arguments) if one not in ("self", "cls")))
        elif isinstance(node, ast.Lambda):
            self.parts.append(" ".join(one.arg for one in arguments.kwonlyargs))
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is None:
                self.parts.append("-")
            else:
                self.visit(default)
        body = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
        self.scopes.append(scope_of(arguments, body))
        self.statements(body)
        self.scopes.pop()

    visit_Lambda = function  # noqa: N815 - called so by ast

    def inner(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function within something: a method, or a function in a function."""
        self.decorators(node.decorator_list)
        self.parts.append(self.local(node.name) or node.name)
        self.function(node, names=True)

    visit_FunctionDef = visit_AsyncFunctionDef = inner  # noqa: N815 - as above

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class, with its name."""
        self.decorators(node.decorator_list)
        self.parts.append(f"class {node.name}")
        for base in node.bases:
            self.visit(base)
        for given in node.keywords:
            self.visit(given)
        bound = {one: at for at, one in enumerate(names_bound(own_nodes(node.body)))}
        self.scopes.append(Scope(bound, {}, is_class=True))
        self.statements(node.body)
        self.scopes.pop()

    def comprehension(self, node: Comprehensions) -> None:
        """A comprehension; what it names is its own."""
        self.parts.append(type(node).__name__)
        bound = dict.fromkeys(one for part in node.generators for one in names_bound(own_nodes([part.target])))
        self.visit(node.generators[0].iter)
        self.scopes.append(Scope({name: at for at, name in enumerate(bound)}, {}))
        for at, part in enumerate(node.generators):
            self.parts.append(f"for {part.is_async}")
            self.visit(part.target)
            for one in (*[part.iter][: at > 0], *part.ifs):
                self.visit(one)
        for one in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(one)
        self.scopes.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """An assignment like any other; in a class it declares a field, with a value or without."""
        if self.scopes and self.scopes[-1].is_class:
            self.parts.append("field")
            self.visit(node.target)
            if node.value is not None:
                self.visit(node.value)
        elif node.value is not None:
            self.visit(ast.Assign(targets=[node.target], value=node.value))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """A handler; the name of what it caught is local."""
        self.parts.append("except")
        if node.type is not None:
            self.visit(node.type)
        self.parts.append(self.bound(node.name))
        self.statements(node.body)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        """A pattern with a name for what it matches."""
        self.parts.append(f"as {self.bound(node.name)}")
        if node.pattern is not None:
            self.visit(node.pattern)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        """The rest of a sequence."""
        self.parts.append(f"* {self.bound(node.name)}")

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        """A pattern for a mapping."""
        self.parts.append(f"mapping {self.bound(node.rest)}")
        for one in (*node.keys, *node.patterns):
            self.visit(one)

    def bound(self, name: str | None) -> str:
        """A name that is bound here."""
        return "-" if name is None else self.local(name) or name


def parameters(arguments: ast.arguments) -> list[str]:
    """The parameters that may be given by name, in their order."""
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def scope_of(arguments: ast.arguments, body: Sequence[ast.stmt]) -> Scope:
    """What names mean in a function."""
    given = parameters(arguments) + [one.arg for one in (arguments.vararg, arguments.kwarg) if one is not None]
    foreign: set[str] = set()
    imported: dict[str, str] = {}
    nodes = own_nodes(body)
    for one in nodes:
        if isinstance(one, ast.Global | ast.Nonlocal):
            foreign |= set(one.names)
        elif isinstance(one, ast.Import | ast.ImportFrom):
            imported.update(imports(one))
    names = dict.fromkeys([*given, *names_bound(nodes)])
    own = [one for one in names if one not in foreign and one not in imported]
    return Scope({name: at for at, name in enumerate(own)}, imported, foreign=frozenset(foreign))


def own_nodes(body: Iterable[ast.AST]) -> list[ast.AST]:
    """What is in a block, in order, without what functions and classes in it have as their own."""
    found: list[ast.AST] = []
    waiting = [*body][::-1]
    while waiting:
        one = waiting.pop()
        found.append(one)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += one.decorator_list[::-1]
        elif not isinstance(one, ast.Lambda):
            waiting += [*ast.iter_child_nodes(one)][::-1]
    return found


def names_bound(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that are bound among these nodes, in order; what comprehensions name is their own."""
    within: set[int] = set()
    for one in nodes:
        if isinstance(one, ast.Name):
            if not isinstance(one.ctx, ast.Load) and id(one) not in within:
                yield one.id
        elif isinstance(one, ast.comprehension):
            within.update(id(name) for name in ast.walk(one.target))
        elif isinstance(
            one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar
        ):
            yield from (one.name,) if one.name else ()
        elif isinstance(one, ast.MatchMapping) and one.rest:
            yield one.rest


def place_of(function: Callable[..., Any]) -> Place:
    """Where a function is defined, or what it was made in."""
    wrapped = getattr(function, "__wrapped__", function)
    name = wrapped.__qualname__.partition(".")[0]
    return Place(wrapped.__module__, name if name != "<lambda>" else WHOLE)


class Source:
    """Definitions with their fingerprints; ``left_out``: whether a module has no say, by its name."""

    def __init__(self, left_out: Callable[[str], bool] = lambda _: False) -> None:
        self.left_out = cache(left_out)
        self.known: dict[Place, str] = {}

    def of(self, function: Callable[..., Any]) -> str:
        """The fingerprint of a function; of one that was made, of what made it and what its module does besides."""
        place = place_of(function)
        module = module_of(place.module)
        if "<" in function.__qualname__ and not hasattr(function, "__wrapped__") and module and module.effects:
            return digest(f"{self.at(place)} {self.at(Place(place.module, EFFECTS))}")
        return self.at(place)

    def at(self, place: Place) -> str:
        """The fingerprint of a definition."""
        if place not in self.known:
            self._know(place)
        return self.known[place]

    def refers(self, place: Place) -> list[Place]:
        """What a definition refers to and is not left out."""
        return [one for one in code_of(place).refers if not self.left_out(one.module)]

    def reached(self, roots: Iterable[Place]) -> set[Place]:
        """These definitions, all that they refer to, and what the modules do that these are in."""
        found: set[Place] = set()
        waiting = list(roots)
        while waiting:
            place = waiting.pop()
            if place in found or self.left_out(place.module):
                continue
            found.add(place)
            waiting += self.refers(place)
            module = module_of(place.module)
            if module is not None and module.effects:
                waiting.append(Place(place.module, EFFECTS))
        return found

    def _know(self, start: Place) -> None:
        """Work out the fingerprint of a definition, after those of all that it refers to (Tarjan's algorithm)."""
        order: dict[Place, int] = {}
        low: dict[Place, int] = {}
        open_: list[Place] = []
        path: list[tuple[Place, Iterator[Place]]] = []

        def enter(place: Place) -> None:
            order[place] = low[place] = len(order)
            open_.append(place)
            path.append((place, iter(self.refers(place))))

        enter(start)
        while path:
            place, rest = path[-1]
            for one in rest:
                if one in self.known:
                    continue
                if one not in order:
                    enter(one)
                    break
                low[place] = min(low[place], order[one])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[place])
                if low[place] == order[place]:
                    at = open_.index(place)
                    self._close(open_[at:])
                    del open_[at:]

    def _close(self, together: list[Place]) -> None:
        """Fingerprints of definitions that refer to each other in a circle: each by all that the circle does."""
        now = dict.fromkeys(together, "")
        kinds = 0
        for _ in range(len(together) + 1):
            now = {place: self._digest(place, now) for place in together}
            if kinds == (kinds := len(set(now.values()))):
                break
        circle = " ".join(sorted(now.values())) if len(together) > 1 else ""
        for place in together:
            self.known[place] = digest(f"{now[place]} {circle}")

    def _digest(self, place: Place, circle: Mapping[Place, str]) -> str:
        text, refers = code_of(place)
        told = [
            "left out" if self.left_out(one.module) else circle[one] if one in circle else self.known[one]
            for one in refers
        ]
        return digest(f"{text}\n{' '.join(sorted(told) if place.name == WHOLE else told)}")


@cache
def everything() -> Source:
    """Fingerprints by which everything counts."""
    return Source()
