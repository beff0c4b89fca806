"""The parts of ``docs/implement.md`` that are rendered from the spec and the reference.

The page is written by hand; between ``<!-- name -->`` and ``<!-- end -->`` stands what :data:`PARTS` makes.  Each call
comes with what the reference decides, what the call then amounts to, the elementary effects of that (read from the
source of :mod:`kvlitmus.spec.prefix.advance`), and the rules that are judged after it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from kvlitmus.reference.prefix.perform import DECIDE, MAKES_ROOM
from kvlitmus.spec.interface import cache as interface
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Kind, Rule
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix import advance, calls, effects
from kvlitmus.spec.prefix.page import Page, Tier
from kvlitmus.spec.prefix.state import RequestState, State
from kvlitmus.spec.words.choices import Values
from kvlitmus.spec.words.config import CONFIG_VALUES, Config
from kvlitmus.spec.words.policies import POLICIES
from kvlitmus.spec.words.profile import PROFILE_VALUES, Profile
from tools.autodoc import code, markdown

PACKS = ("pool", "tree", "lock", "evict", "req")
"""The parts of the spec that are about flat caches without events and page hashes."""


class Method(NamedTuple):
    """What a method of a port is to the spec: the calls that it is judged as, and the occasions of its rules."""

    kinds: tuple[type, ...] = ()
    occasions: tuple[On, ...] = ()


METHODS: Mapping[str, Method] = {
    "alloc": Method((calls.Alloc,), (On.ALLOC, On.REFUSED_ALLOC)),
    "free": Method((calls.Free,), (On.FREE,)),
    "available": Method(),
    "alloc_extend": Method((calls.Extend,), (On.ALLOC_EXTEND, On.EXTEND_BATCH, On.EXTEND_ONE, On.REFUSED_EXTEND)),
    "alloc_decode": Method((calls.Extend,), (On.ALLOC_DECODE, On.EXTEND_BATCH, On.EXTEND_ONE, On.REFUSED_EXTEND)),
    "free_group_begin": Method((), (On.GROUP_OPEN,)),
    "free_group_end": Method((calls.EndGroup,), (On.FREE,)),
    "match": Method((calls.Match,), (On.MATCH,)),
    "insert": Method((calls.Insert,), (On.INSERT,)),
    "lock": Method((calls.Lock,), (On.LOCK,)),
    "unlock": Method((calls.Unlock,), (On.UNLOCK,)),
    "evict": Method((calls.Evict,), (On.EVICT, On.AGAIN)),
    "begin": Method((calls.Begin,), (On.BEGIN, On.REFUSED_BEGIN)),
    "grow": Method((calls.Grow,), (On.GROW, On.REFUSED_GROW)),
    "publish": Method((calls.Publish,), (On.PUBLISH, On.PUBLISH_ALL)),
    "end": Method((calls.End,), (On.END, On.FINISH, On.ABORT)),
    "take_back": Method((calls.TakeBack,), (On.TAKE_BACK,)),
    "fork": Method((calls.Fork,), (On.FORK, On.REFUSED_FORK)),
    "retract": Method((calls.Retract,), (On.RETRACT, On.REFUSED_RETRACT)),
    "resume": Method((calls.Resume,), (On.RESUME, On.REFUSED_RESUME)),
    "discard": Method((calls.Discard,), (On.DISCARD,)),
    "publish_upto": Method((calls.Publish,), (On.PUBLISH, On.PUBLISH_UPTO)),
    "end_upto": Method((calls.End,), (On.END, On.FINISH, On.END_UPTO)),
    "sizes": Method(),
    "view": Method(),
    "flush": Method((calls.Flush,), (On.FLUSH, On.REFUSED_FLUSH)),
    "reset": Method((calls.Reset,), (On.RESET,)),
}
"""The methods that a flat cache may have, in the order of the page."""

PROTOCOLS = (
    *(interface.Pool, interface.Extend, interface.FreeGroup, interface.PrefixTree, interface.Locks, interface.Evict),
    *(
        interface.Requests,
        interface.PartlyComputed,
        interface.TakeBack,
        interface.Fork,
        interface.Retract,
        interface.Counters,
        interface.Inspect,
        interface.Resettable,
        interface.Flush,
    ),
)
ANSWERS = (interface.Hit, interface.Stored, interface.Begun, interface.Sizes, interface.NodeView, interface.View)


def filled(text: str) -> str:
    """The page with its rendered parts as they are now.  Raises ``KeyError`` for a part that there is none."""
    return re.sub(
        r"(<!-- (\w+) -->\n).*?(<!-- end -->)",
        lambda found: found[1] + "\n" + "\n".join(PARTS[found[2]]()) + "\n\n" + found[3],
        text,
        flags=re.DOTALL,
    )


def rules() -> list[Rule]:
    """The rules of flat caches."""
    return [one for one in all_rules().values() if one.pack in PACKS]


def sentence(rule: Rule) -> str:
    """A rule as an item of a list."""
    weak = "" if rule.strength.value == "MUST" else f" ({rule.strength.value})"
    return f"[{rule.id}](rules/{rule.pack}.md#{rule.id.lower()}){weak}: {rule.text}"


def calls_part() -> Iterator[str]:
    """Every port with its methods, one by one."""
    for protocol in PROTOCOLS:
        ports = [port for port, names in interface.CACHE_PORTS.items() if all(hasattr(protocol, one) for one in names)]
        yield f"### Port {ports[0]}"
        yield ""
        yield markdown(inspect.getdoc(protocol) or "")
        for name in interface.CACHE_PORTS[ports[0]]:
            yield ""
            yield from method(name, getattr(protocol, name))
        yield ""


def method(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """One method: what it is given and answers, what a correct cache does, and its rules."""
    known = METHODS[name]
    signature = str(inspect.signature(function)).replace("(self, ", "(").replace("(self)", "()").replace("'", "")
    yield f"#### {name}"
    yield ""
    yield from (*code(f"{name}{signature}"), "")
    yield markdown(inspect.getdoc(function) or "")
    yield ""
    for kind in known.kinds:
        yield f"- Decided: {first(DECIDE[kind], None)}"
        yield f"- Afterwards: {first(advance.EXPECT[kind])}"
        yield f"- Effects: {', '.join(f'`{one}`' for one in effects_of(kind)) or 'none'}"
    yield from (f"- {sentence(one)}" for one in rules() if set(one.on) & set(known.occasions))


def first(described: object, many: int | None = 1) -> str:
    """The first paragraphs of a docstring, or all, on one line."""
    return " ".join(markdown("\n\n".join((inspect.getdoc(described) or "").split("\n\n")[:many])).split())


def elementary() -> dict[str, Callable[..., Any]]:
    """The elementary effects: the functions of that module that answer with a tree, owners or contents."""
    return {
        name: function
        for name, function in vars(effects).items()
        if inspect.isfunction(function)
        and function.__module__ == effects.__name__
        and re.match(r"Tier|tuple\[Tier|Mapping", str(inspect.signature(function).return_annotation))
    }


def effects_of(kind: type) -> list[str]:
    """The elementary effects that make up this call, as the source says; one that makes room removes pages, too."""
    found = used(advance, advance.EXPECT[kind].__name__)
    if kind in MAKES_ROOM:
        found.add("remove")
    return [name for name in elementary() if name in found]


def used(module: ModuleType, start: str) -> set[str]:
    """What a function of a module uses of ``effects``: itself, and by the functions of its module that it calls."""
    source = {
        node.name: node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.FunctionDef)
    }
    found: set[str] = set()
    waiting, seen = [start], set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for node in ast.walk(source[name]):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "effects":
                found.add(node.attr)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                waiting += {node.func.id} & source.keys() - seen
                found |= {node.func.id} if module is effects else set()
    return found


def effects_part() -> Iterator[str]:
    """The elementary effects, and the calls and other effects that are made of them."""
    made = {name: effects_of(one.kinds[0]) for name, one in METHODS.items() if one.kinds}
    within = {name: used(effects, name) for name in elementary()}
    yield from ("| effect | meaning | in |", "|---|---|---|")
    for name, function in elementary().items():
        users = [f"[{call}](#{call})" for call, parts in made.items() if name in parts]
        users += [f"`{other}`" for other, parts in within.items() if name in parts]
        where = ", ".join(users) or "no call; the judge uses it where evictions are not seen"
        yield f"| `{name}` | {first(function)} | {where} |"


def described(kinds: Sequence[type]) -> Iterator[str]:
    """What these are, field by field: groups of the state, or answers."""
    for kind in kinds:
        yield from (
            f"`{kind.__name__}`: {markdown(inspect.getdoc(kind) or '')}",
            "",
            *code(fields(kind)),
            "",
        )


def fields(kind: type) -> str:
    """The fields of a named tuple with their types and usual values."""
    usual = getattr(kind, "_field_defaults", {})
    lines = []
    for name, type_ in kind.__annotations__.items():
        shown = type_.__forward_arg__ if hasattr(type_, "__forward_arg__") else str(type_)
        lines.append(f"{name}: {shown}" + (f" = {usual[name]!r}" if name in usual else ""))
    return "\n".join(lines)


def config_part() -> Iterator[str]:
    """What a flat cache may be asked for."""
    yield from choices(Config(), ("page_size", "pages", "policy", "bigram"), CONFIG_VALUES)


def profile_part() -> Iterator[str]:
    """The choices of a flat cache, with their meanings."""
    flat = (inspect.getdoc(Profile) or "").partition("Of hierarchies:")[0]
    meanings = dict(re.findall(r"^(\w+): (.*(?:\n    .*)*)", flat, re.MULTILINE))
    yield from choices(Profile(), tuple(meanings), PROFILE_VALUES, meanings)


def choices(
    usual: object, names: Sequence[str], legal: Mapping[str, Values], meanings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A table of fields: legal values, the usual one, what they mean where that is told."""
    yield "| field | legal | usual |" + (" meaning |" if meanings else "")
    yield "|---|---|---|" + ("---|" if meanings else "")
    for name in names:
        values = legal.get(name, ("True", "False"))
        shown = f"{values[0]} … {values[-1]}" if isinstance(values, range) else ", ".join(f"`{one}`" for one in values)
        line = f"| `{name}` | {shown} | `{getattr(usual, name)}` |"
        yield line + (f" {' '.join(markdown(meanings[name]).split())} |" if meanings else "")


def policies_part() -> Iterator[str]:
    """The policies of eviction."""
    yield from ("| policy | evicted first |", "|---|---|")
    yield from (f"| `{name}` | {first(function)} |" for name, function in POLICIES.items())


def always_part() -> Iterator[str]:
    """The rules that must hold after every call, and those of every call whatever it is."""
    yield from (f"- {sentence(one)}" for one in rules() if one.kind is Kind.STATE)
    yield from (f"- {sentence(one)}" for one in all_rules().values() if one.pack == "port")


PARTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "answers": lambda: described(ANSWERS),
    "always": always_part,
    "calls": calls_part,
    "config": config_part,
    "effects": effects_part,
    "policies": policies_part,
    "profile": profile_part,
    "state": lambda: described((State, Tier, Page, RequestState)),
}
"""What is rendered, by the name that the page gives it."""
