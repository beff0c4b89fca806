"""What ``kvlitmus init-adapter`` writes: an adapter to fill in.

Everything that could drift is read where it is defined, when the file is written: which ports there
are from ``PORTS``, their methods from the protocols, the choices from ``Profile``, what is
asked for from ``Config``.  Only the frame around that is text of this module.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from kvlitmus.conformance import ports
from kvlitmus.conformance.ports.template_words import WIDTH, comment, literal, prose, quoted, wrapped
from kvlitmus.spec import interface
from kvlitmus.spec.interface import PORTS, cache, components, plans, ranks, sparse, stores, tiers
from kvlitmus.spec.words.policies import POLICIES
from kvlitmus.spec.words.profile import PROFILE_VALUES, Profile

USUAL = ("pool", "tree", "locks", "evict", "inspect")
"""The ports of a prefix cache, when none are named: without a snapshot one bug shows as many, and far from its call."""

PAGES = {
    "": "docs/implement.md",
    "tier": "docs/hierarchy.md",
    "store": "docs/storage.md",
    "sparse": "docs/sparse.md",
    "ranks": "docs/ranks.md",
    "components": "docs/components.md",
}
"""For each family of ports the page that says what its methods owe, and what its choices mean."""

STEPS = (
    "Fill in the methods; what each owes is told in {pages}.",
    "Delete ports that the cache doesn't have; 'kvlitmus init-adapter --list' has more.",
    "Add to what it DOES; all else is declined, and reported as not applicable.",
    "Declare the legal choices that it makes in the profile, at the end.",
)
"""What to do with the file."""

BUILD = "Build, and import, a fresh cache here; reserved pages are extra."

DOES: Mapping[str, tuple[str, str]] = {
    "page_size": ("range(1, 1025)", "slots in a page"),
    "policy": ('("lru",)', f"or {', '.join(one for one in POLICIES if one != 'lru')}"),
    "bigram": ("(False,)", "or True: a page's last pair of tokens reaches into the next"),
    "pool": ('("device",)', "or host: no tree, and pages from 0 whatever is reserved"),
    "write": ('("write_through",)', "or write_through_selective, write_back"),
    "storage": ('("none",)', "or attached, later: below the host, by attach"),
}
"""What a cache is taken to do until its adapter says more, by the fields of ``Config``, and what else there is."""

OF_TIERS = ("write", "storage")
"""Those of a hierarchy."""

READ_BY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("reserved", "align", "release_delay", "release_moment", "misuse"), ("pool",)),
    "match_cap": ("tree", "component_lookup"),
    **dict.fromkeys(("match_ends", "publish", "least_key", "vocabulary", "namespaces"), ("tree",)),
    "duplicates": ("tree", "components"),
    "evict_granularity": ("evict", "components"),
    **dict.fromkeys(("evict_moment", "hit_counts", "split_created", "slru_hits", "clock", "tick_uses"), ("evict",)),
    **dict.fromkeys(("evict_order", "most_hits", "evict_batch", "expiry"), ("evict",)),
    **dict.fromkeys(("lock_touches", "unlock_touches", "unlock_delay"), ("locks",)),
    **dict.fromkeys(
        ("evict_slack", "evict_amount", "watermark", "spare_pages", "refused_begin", "aborted", "admission"),
        ("requests",),
    ),
    "event_delay": ("events",),
    "hash_scheme": ("hashes", "tiers"),
    **dict.fromkeys(("component_landing", "component_host_spares"), ("component_host",)),
    **dict.fromkeys(("component_shortfall", "component_fetch_window"), ("component_prefetch",)),
    "component_extent": ("component_host", "component_prefetch"),
}
"""The ports of which rules read a choice; the other choices are read by those of a family, by their names."""

RARE = (
    "evict_order",
    "slru_hits",
    "most_hits",
    "tick_uses",
    "evict_batch",
    "release_moment",
    "unlock_delay",
    "expiry",
    "watermark",
    "spare_pages",
    "aborted",
    "admission",
)
"""Choices of flat caches that few make: an adapter of some ports names them, and where they are explained."""

KINDS = {
    "": ("Adapter", "behind the ports"),
    "tier": ("Hierarchy", "with a host tier behind the ports"),
    "store": ("Store", "as a page store alone"),
    "sparse": ("Sparse", "as a sparse host pool alone"),
    "ranks": ("Ranks", "as several ranks"),
    "components": ("Components", "as a cache of components"),
}
"""For each family of ports what its class is called, and what it is."""

APART = {
    "store": "a page store",
    "sparse": "a sparse host pool",
    "ranks": "several ranks",
    "components": "a cache of components",
}
"""The families of what is judged by itself, and what that is."""

ASKED_FOR = {one: (f'config.pool == "{one}"', f'config.pool != "{one}"') for one in APART} | {
    "components": ("config.components", "not config.components")
}
"""How a configuration asks for each of them, and how for something else."""

FAMILIES = {
    tiers.__name__: "tier",
    stores.__name__: "store",
    sparse.__name__: "sparse",
    ranks.__name__: "ranks",
    components.__name__: "components",
}
"""The family of the ports in a module; empty for those of a cache."""

Imports = dict[str, set[str]]
"""Module → the names that are imported from it."""


class Port(NamedTuple):
    """One port: its name, the protocol that says what its methods are, and their names."""

    name: str
    protocol: type
    methods: tuple[str, ...]

    @property
    def family(self) -> str:
        """What is judged by it: a cache (empty), a hierarchy (``tier``), or what is judged alone (:data:`APART`)."""
        if self.name == "events":
            return ""  # defined beside the tiers that it may name, and told by caches without them too
        return FAMILIES.get(self.protocol.__module__, "")

    @property
    def about(self) -> str:
        """What the port is about, in a sentence."""
        return prose(self.protocol).split("\n\n")[0].replace("\n", " ")


def all_ports() -> dict[str, Port]:
    """Every port by name; raises ``LookupError`` for one that no protocol describes."""
    protocols = [one for module in modules() for one in vars(module).values() if _is_protocol(one)]
    found = {}
    for name, methods in PORTS.items():
        fitting = [one for one in protocols if set(methods) <= set(vars(one))]
        if not fitting:
            raise LookupError(f"no protocol has the methods of the port {name!r}: {', '.join(methods)}")
        found[name] = Port(name, min(fitting, key=lambda one: len(vars(one))), methods)
    return found


def modules() -> list[ModuleType]:
    """The modules that define ports."""
    return [cache, stores, sparse, ranks, components, tiers]


def _is_protocol(value: object) -> bool:
    return isinstance(value, type) and bool(getattr(value, "_is_protocol", False)) and value.__module__ != "typing"


def generate(name: str, module: str, chosen: Sequence[Port], *, folder: str = "") -> str:
    """The file: an adapter for the cache ``name`` with the chosen ports, in the module ``module`` of ``folder``."""
    cache = "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", name))
    cache = f"Cache{cache}" if not cache[:1].isalpha() else cache
    imports: Imports = {ports.__name__: {"Config", "Profile", "Target", "Unsupported"}}
    told: set[str] = set()
    families: dict[str, str] = {}
    classes: list[str] = []
    for family in dict.fromkeys(port.family for port in chosen):
        families[family] = cache + KINDS.get(family, ("Adapter", ""))[0]
        base = families.get("", "") if family == "tier" else ""
        classes += class_lines(families[family], base, name, KINDS.get(family, ("", "behind the ports"))[1])
        for port in chosen:
            if port.family == family:
                classes += port_lines(port, name, imports, told)
        classes += ["", ""]
    if not set(families) <= APART.keys():
        imports.setdefault("collections.abc", set()).update({"Container", "Mapping"})
    lines = [
        *heading(name, module, folder, families),
        "",
        "from __future__ import annotations",
        "",
        *import_lines(imports),
        "",
        *does_lines(families),
        *classes,
        *target_lines(name, cache, module, families, chosen),
    ]
    return "\n".join(lines) + "\n"


def does_lines(families: dict[str, str]) -> Iterator[str]:
    """What the cache does; what is judged by itself is asked for by a pool of its own."""
    if not set(families) <= APART.keys():
        yield "DOES: Mapping[str, Container[object]] = {"
        for field, (values, more) in DOES.items():
            if field not in OF_TIERS or "tier" in families:
                yield f"    {quoted(field)}: {values},  # {more}"
        yield "}"
        yield ""
    yield ""


def class_lines(kind: str, base: str, name: str, what: str) -> Iterator[str]:
    """The head of one class of adapters; one that has a base is built as that is."""
    yield f"class {kind}({base}):" if base else f"class {kind}:"
    yield f'    """{name} {what}: it translates, and repairs and hides nothing."""'
    if not base:
        yield ""
        yield "    def __init__(self, config: Config) -> None:"
        yield from comment(BUILD, 8)
        yield "        self.config = config"


def told_in(families: Iterable[str]) -> str:
    """The pages about these families of ports."""
    return ", ".join(PAGES[family] for family in families)


def heading(name: str, module: str, folder: str, families: Collection[str]) -> Iterator[str]:
    """The docstring of the module: what to do."""
    yield f'"""An adapter for kvlitmus: {name} behind the ports of the suite.'
    yield ""
    place = f"In {folder}, run" if folder else "Run"
    run = f"{place} 'kvlitmus smoke {module}:target', then 'kvlitmus run {module}:target'."
    steps = [one for one in STEPS if "DOES" not in one or not set(families) <= APART.keys()]
    for number, text in enumerate((*steps, run), 1):
        text = text.replace("{pages}", told_in(families))
        yield from textwrap.wrap(text, WIDTH, initial_indent=f"{number}. ", subsequent_indent="   ")
    yield '"""'


def port_lines(port: Port, name: str, imports: Imports, told: set[str]) -> Iterator[str]:
    """One port: a comment that says what it is, and its methods."""
    methods = [inspect.getattr_static(port.protocol, one) for one in port.methods]
    about = first_sentence(port.about).rstrip(".")
    title, below = f"    # -- {port.name}: {about} ", ""
    if len(title) > WIDTH - 2:
        title, below = f"    # -- {port.name} ", f"{about}."
    yield ""
    yield title + "-" * (WIDTH - len(title))
    yield from comment(below, 4) if below else ()
    for kind in dict.fromkeys(one for method in methods for one in types_of(method)):
        if kind.__name__ not in told:
            told.add(kind.__name__)
            yield from comment(f"{kind.__name__}{fields_of(kind)}: {first_sentence(prose(kind))}", 4, 4)
    for method in methods:
        yield ""
        yield from method_lines(method, name, imports)


def method_lines(method: Any, name: str, imports: Imports) -> Iterator[str]:
    """One method: signature and docstring of the protocol's, and nothing in it yet."""
    signature = inspect.signature(method)
    parameters = list(parameters_of(signature, method, imports))
    answer = annotation(signature.return_annotation)
    one_line = f"    def {method.__name__}({', '.join(parameters)}) -> {answer}:"
    if len(one_line) <= WIDTH:
        yield one_line
    else:
        yield f"    def {method.__name__}("
        yield from (f"        {one}," for one in parameters)
        yield f"    ) -> {answer}:"
    document = first_sentence(prose(method))
    if len(document) > WIDTH - 14:
        document = f"{document.rstrip('.').partition(';')[0]}."
    document = document.replace("\\", "\\\\").replace('"""', "'''")
    *text, last = wrapped(f'"""{document}"""', 8)
    yield from [*text, last.removesuffix('"""'), '        """'] if text else [last]
    yield f'        raise NotImplementedError("{name}: {method.__name__} is not filled in")'


def first_sentence(text: str) -> str:
    """How a text begins, up to the end of its first sentence."""
    found = re.match(r".+?[.](?= |$)", " ".join(text.partition("\n\n")[0].split()))
    return found[0] if found else text


def parameters_of(signature: inspect.Signature, method: Any, imports: Imports) -> Iterator[str]:
    """The parameters as they are written; what they name is imported."""
    note(annotation(signature.return_annotation), method, imports)
    starred = False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred |= one.kind is one.VAR_POSITIONAL
        stars = 1 if one.kind is one.VAR_POSITIONAL else 2 if one.kind is one.VAR_KEYWORD else 0
        text = "*" * stars + one.name
        if one.annotation is not one.empty:
            note(annotation(one.annotation), method, imports)
            text += f": {annotation(one.annotation)}"
        if one.default is not one.empty:
            sign = " = " if one.annotation is not one.empty else "="
            text += sign + value_of(one.default, method, imports)
        yield text


def annotation(given: Any) -> str:
    """An annotation as it is written."""
    return (given if isinstance(given, str) else inspect.formatannotation(given)).replace("'", '"')


def note(text: str, method: Any, imports: Imports) -> None:
    """Import what an annotation names."""
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.Name) and node.id in method.__globals__:
            value = method.__globals__[node.id]
            home = getattr(value, "__module__", None)
            known = home and getattr(importlib.import_module(home), node.id, None) is value
            imports.setdefault(face(str(home) if known else method.__module__), set()).add(node.id)


def face(module: str) -> str:
    """Where users import from what a module defines: the interface has one place for all of its modules."""
    return interface.__name__ if module in FAMILIES or module == plans.__name__ else module


def types_of(method: Any) -> Iterator[type]:
    """The project's own types in a method's annotations, which a reader must know to write it."""
    signature = inspect.signature(method)
    given = [signature.return_annotation, *(one.annotation for one in signature.parameters.values())]
    for text in (annotation(one) for one in given if one is not inspect.Signature.empty):
        for node in ast.walk(ast.parse(text, mode="eval")):
            found = method.__globals__.get(node.id) if isinstance(node, ast.Name) else None
            if isinstance(found, type) and found.__module__.startswith("kvlitmus."):
                yield found


def fields_of(kind: type) -> str:
    """The fields of a type as in a call: ``(length, slots=None)``; nothing for one that isn't made of fields."""
    if dataclasses.is_dataclass(kind):
        return f"({', '.join(one.name for one in dataclasses.fields(kind))})"
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults: Mapping[str, object] = getattr(kind, "_field_defaults", {})
        return f"({', '.join(f'{one}={defaults[one]!r}' if one in defaults else one for one in kind._fields)})"
    return ""


def value_of(value: Any, method: Any, imports: Imports) -> str:
    """A default as it is written: a literal, or the name of a constant of the protocol's module, imported."""
    if value is None or type(value) in (bool, int, float, str, tuple):
        return literal(value)
    name: str = next(name for name, one in method.__globals__.items() if one is value)
    imports.setdefault(face(method.__module__), set()).add(name)
    return name


def import_lines(imports: Imports) -> Iterator[str]:
    """The imports, the standard library's first, as formatters sort them."""
    ours = sorted(one for one in imports if one.startswith("kvlitmus."))
    others = sorted(imports.keys() - set(ours) - {"builtins"})
    for group in filter(None, (others, ours)):
        for module in group:
            names = sorted(imports[module], key=lambda one: (not one.isupper(), not one[:1].isupper(), one.lower()))
            line = f"from {module} import {', '.join(names)}"
            yield from (
                [line]
                if len(line) <= WIDTH
                else [
                    f"from {module} import (",
                    *(f"    {one}," for one in names),
                    ")",
                ]
            )
        if group is others:
            yield ""


def target_lines(name: str, cache: str, module: str, families: dict[str, str], chosen: Sequence[Port]) -> Iterator[str]:
    """What makes adapters, with every choice that can be declared."""
    yield f"class {cache}Target:"
    yield f'    """What makes adapters: ``kvlitmus run {module}:target`` finds it by its name below."""'
    yield ""
    yield f"    version = {quoted(f'{name} (unknown version)')}  # a line that reports show"
    yield from comment(
        f"The usual choices of those that rules on these ports read; see {told_in(families)}.",
        4,
    )
    yield "    profile = Profile("
    fields = [field for field in dataclasses.fields(Profile) if is_read(field.name, chosen)]
    rare = [field.name for field in fields if field.name in RARE and len(chosen) < len(all_ports())]
    for field in fields:
        if field.name in rare:
            continue
        legal = PROFILE_VALUES.get(field.name)
        others = [str(one) for one in legal if one != field.default] if isinstance(legal, tuple) else []
        line = f"        {field.name}={literal(field.default)},"
        yield f"{line}  # or {', '.join(others)}" if others else line
    if rare:
        yield from comment(f"Rarer ones are told of in docs/choices.md: {', '.join(rare)}.", 8)
    yield "    )"
    yield ""
    yield from judged_as(families, chosen)
    yield "    def make(self, config: Config) -> object:"
    yield '        """A fresh cache; raises Unsupported, with the reason, for what can\'t be built."""'
    for family, what in APART.items():
        if family in families and len(families) > 1:
            yield f"        if {ASKED_FOR[family][0]}:"
            yield f"            return {families[family]}(config)"
        elif family in families:
            yield f"        if {ASKED_FOR[family][1]}:"
            yield f'            raise Unsupported("{name} is {what} alone")'
            yield f"        return {families[family]}(config)"
    yield from declining(families)
    if "tier" in families and "" in families:
        yield f"        return {families['tier']}(config) if config.tiered else {families['']}(config)"
    elif "" in families or "tier" in families:
        yield f"        return {families.get('') or families['tier']}(config)"
    elif len(families) > 1:
        yield f'        raise Unsupported("{name} has no such pool")'
    yield ""
    yield ""
    yield f"target: Target = {cache}Target()"


def declining(families: dict[str, str]) -> Iterator[str]:
    """What declines all that the cache doesn't do, and a cache that the adapter doesn't stand for."""
    if not set(families) <= APART.keys():
        yield "        for name, values in DOES.items():"
        yield "            if getattr(config, name) not in values:"
        yield '                raise Unsupported(f"it has no {name}={getattr(config, name)!r}")'
        if "" not in families:
            yield "        if not config.tiered:"
            yield '            raise Unsupported("it is a hierarchy alone")'


def is_read(choice: str, chosen: Sequence[Port]) -> bool:
    """Whether rules on these ports read a choice: those that name it (:data:`READ_BY`), else those of its family."""
    if choice in READ_BY:
        return any(port.name in READ_BY[choice] for port in chosen)
    family = next((one for one in ("store", "sparse", "component") if choice.startswith(f"{one}_")), "tier")
    family = "components" if family == "component" or choice == "window_root" else family
    return any(port.family == family for port in chosen)


BELOW = ("component_host", "component_writes", "component_storage")
"""What a cache of components is judged as besides, where it has the port."""


def judged_as(families: dict[str, str], chosen: Sequence[Port]) -> Iterator[str]:
    """What a target says of itself when it is more than a cache, or another thing."""
    if len(families) == 1 and set(families) <= APART.keys():
        what = APART[next(iter(families))]
        yield from comment(f"The ports that it has: known before it is built, they say that it is {what} alone.", 4)
        named = [f"        {quoted(port.name)}," for port in chosen]
        yield from ["    capabilities = (", *named, "    )", ""]
        below = [port.name for port in chosen if port.name in BELOW]
        if below:
            beyond = ", and with storage behind it" if "component_storage" in below else ""
            yield from comment(f"Judged in the configurations with host memory too{beyond}.", 4)
            yield from [f"    pools = ({', '.join(map(quoted, below))}{',' if len(below) == 1 else ''})", ""]
    elif set(families) != {""}:
        yield from comment("Judged as a cache, and beyond that as a hierarchy, or what is named here by itself.", 4)
        more = [kind for family, kind in (("tier", "tiers"), *zip(APART, APART, strict=True)) if family in families]
        yield f"    pools = ({', '.join(map(quoted, ['device', *more]))})"
        yield ""
