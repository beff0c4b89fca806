"""Transitions of the reference, as the rules see them: facts are worked out by the definitions that judge caches.

A lemma makes a :class:`Step` of what the reference had, was asked, answered and has now, and claims rules;
:func:`keeps` works out their facts by the spec's own functions, in the plan that judges caches.  A rule that isn't
judged after such a call, and a fact that can't be known, are errors: they would prove nothing.

What a correct cache is expected to have is folded from the same effects of which the reference is made, so a slip in
an effect is invisible to rules that compare the two.  A lemma about an effect therefore says in words of its own, too,
what the effect does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kvlitmus.conformance.adapters.reference.target import target
from kvlitmus.conformance.ports import capabilities_of
from kvlitmus.reference.prefix.perform import sizes
from kvlitmus.spec.law import step as performed
from kvlitmus.spec.law.facts import FACTS, worked_out_from
from kvlitmus.spec.law.occasions import occasions_of
from kvlitmus.spec.law.plan import Judged, plan_of
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix import advance
from kvlitmus.spec.prefix.calls import Path
from kvlitmus.spec.prefix.seen import NodeInfo, NodeSeen, Seen
from kvlitmus.spec.prefix.state import State, Tier
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key, Name, PageNo, Tokens

RULES = all_rules()
ROOT = Name(0)
NO_KEY = Key(None, ())
"""Nobody looks at tokens: keys come named."""
CAPABILITIES = capabilities_of(target.make(Config()))
"""Everything that a flat cache can offer: the reference does."""


def setting_of(page_size: int, pages: int = 3, policy: str = "lru", **choices: Any) -> Setting:
    """What is asked for and declared; CrossHair must not come here, so lemmas make their settings beforehand."""
    config = Config(page_size=page_size, pages=pages, policy=policy)
    return Setting(config, Profile(**choices), SNAPSHOT, CAPABILITIES)


def path_of(names: Sequence[Name], page_size: int = 1) -> Path:
    """A key with these prefixes, in the namespace of the root; its tokens are alike, for nobody looks at them."""
    every = tuple(names)
    return Path(Key(None, (0,) * len(every)), ROOT, every, page_names(every, page_size), every)


def state_of(tree: Tier, owned: Iterable[PageNo] = ()) -> State:
    """A cache in which no request runs: what is cached, and what its callers own."""
    return State(tree, dict.fromkeys(owned, 1), {}, {}, {})


def seen(state: State, setting: Setting, *, counted: bool = True) -> Seen:
    """A cache of the reference as a snapshot shows it, each page in a node of its own.

    With the tree's own counters if ``counted``.
    """
    made, tree = Seen(), state.device
    cached = [page.page for page in tree.pages.values()]
    # one by one: a page may be any integer, and is not to be hashed
    free = frozenset([page for page in setting.usable if page not in state.owners and page not in cached])
    made.available = Tokens(len(free) * setting.size)
    if counted:
        made.sizes = sizes(state, setting)
    made.seen, made.listed, made.free = True, tuple(free), free
    number = {name: at for at, name in enumerate(tree.pages)}
    for name, page in tree.pages.items():
        items = {name: page.page}
        info = NodeInfo((name,), (page.page,), page.parent, name, "", (), items)
        made.nodes.append(NodeSeen(info, number.get(page.parent, -1), page.locks, page.hits, page.priority))
        made.cached[name] = page.page
        made.cached_listed.append(page.page)
        if page.parent != ROOT:
            made.parents.add(page.parent)
    return made


class Step(NamedTuple):
    """One call on the reference: what was known before it, the call and its answer, and what was seen."""

    setting: Setting
    state: State
    before: Seen
    call: Any
    answer: Any
    after: Seen


Acting = Callable[[State, Setting, Any], performed.Step[State]]
"""The reference, or the reference with a slip: what a cache in this state makes of a call."""


def step_of(act: Acting, state: State, setting: Setting, call: Any) -> Step:
    """A step of the reference, as it was seen."""
    made = act(state, setting, call)
    return Step(setting, state, seen(state, setting), call, made.answer, seen(made.after, setting))


class Claim(NamedTuple):
    """Rules that are claimed after calls that are alike.

    ``run``: works out their facts and judges, as for any cache (:mod:`kvlitmus.spec.law.plan`).  ``follows``: whether a
    fact looks at what was expected; where none does, a lemma need not follow it.
    """

    rules: tuple[str, ...]
    on: tuple[str, ...]
    run: Callable[..., Judged | None]
    follows: bool


def claim(*rules: str, on: tuple[str, ...], capabilities: frozenset[str] = CAPABILITIES) -> Claim:
    """A claim of these rules after calls on these occasions.

    Raises ``ValueError`` for a rule that isn't judged then: a lemma of it would prove nothing.
    """
    plan = plan_of([RULES[id] for id in rules], on, depth=SNAPSHOT, capabilities=capabilities, premises=False)
    if sorted(plan.rules) != sorted(rules):
        raise ValueError(f"{sorted({*rules} - {*plan.rules})} are not judged on {on}", rules)
    needs = {need for id in rules for name in worked_out_from(RULES[id].facts) for need in FACTS[name].needs}
    return Claim(plan.rules, on, plan.compiled(), not needs.isdisjoint({"expected", "then"}))


def keeps(step: Step, claimed: Claim) -> bool:
    """Whether the rules hold after a step; after misuse nothing is expected to have changed."""
    setting, state, before, call, answer, after = step
    expected = then = state
    if claimed.follows and "misuse" not in claimed.on:
        expected = advance.expect(state, setting, call, answer)
        then = advance.follow(expected, setting, after)
    return judged_by(claimed, setting, state, expected, then, call, answer, before, after)


def judged_by(
    claimed: Claim,
    setting: Setting,
    state: State,
    expected: State,
    then: State,
    call: Any,
    answer: Any,
    before: Seen,
    after: Seen,
) -> bool:
    """The same for whoever has followed the call: the inputs of facts, in order.

    Raises ``ValueError`` where the step is another than was claimed or a fact isn't known: nothing is confirmed then,
    and nothing refuted.
    """
    occasions = occasions_of(call, answer, state, setting, before)
    for one in claimed.on:
        if one not in occasions:
            raise ValueError(f"this was {occasions}, not {one}", call)
    verdict = claimed.run(setting, state, expected, then, call, answer, before, after, None, None, None, None, False)
    if verdict is None:
        return True
    if verdict.unknown:
        raise ValueError(f"{verdict.unknown} are not judged, for want of a fact", call)
    return not verdict.broken
