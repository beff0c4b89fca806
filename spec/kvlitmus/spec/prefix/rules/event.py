"""Events: what a cache tells the world about its contents.

Routers send a request to where its prefix is cached; all they know is what caches tell them.  Whoever
replays every event from the beginning must know exactly what is cached, and on which tier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import cast

from kvlitmus.spec.interface import Begun, Hit
from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import Strength, rule
from kvlitmus.spec.prefix.batches import Batch
from kvlitmus.spec.prefix.calls import Begin, Match, Reset
from kvlitmus.spec.prefix.late_events import Late, followed
from kvlitmus.spec.prefix.listener import copies_count, told_too_often
from kvlitmus.spec.prefix.partial import surely
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import tier as _tier  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules.tree import LOOKUPS
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import EventMirror, State
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, Tokens

STREAM = ("events", "batches")
"""What has a stream: events as they were published, in batches."""


@fact(2, ports=("events",))
def told(then: State) -> EventMirror:
    """What all events so far tell."""
    return cast("EventMirror", then.told)


@fact(2)
def odd_events(told: EventMirror) -> Sequence[str]:
    """Events that make no sense: an unknown page or parent, or a page removed while absent."""
    return [one.text for one in told.odd]


@fact(2, ports=("events",))
def events_told(after: Seen) -> Sequence[Event]:
    """The events of the call."""
    return after.events


@fact(2, ports=("events",))
def stored_events(after: Seen) -> Sequence[Event]:
    """The events of the call that tell of pages that are on a tier from now on."""
    return [event for event in after.events if event.what == "stored"]


@fact(2)
def told_again(told: EventMirror, setting: Setting, then: State) -> Sequence[str] | Unknown:
    """What is told as stored more often than it has copies on that tier, where copies count; unknown where they don't."""
    if not copies_count(setting.profile):
        return UNKNOWN
    if not setting.table:
        return [one.text for one in told.twice]
    places = Counter(block.name for block in then.table.values())
    if setting.profile.event_delay:
        return []
    return [f"told {told.device[name]} times: page {name}" for name in told_too_often(told.device, places)]


@fact(2)
def told_renamed(told: EventMirror) -> Sequence[str]:
    """Events that give a page the id of another one that is on some tier by the events before."""
    return told.renamed


@fact(2)
def told_strays(told: EventMirror) -> Sequence[str]:
    """Events of pages in another namespace than the page before them."""
    return told.strays


@fact(2)
def told_orphans(told: EventMirror) -> Sequence[str]:
    """Events of pages below one that is on no tier by the events before."""
    return told.orphans


@fact(2, ports=STREAM)
def told_aliases(told: EventMirror) -> Sequence[str]:
    """Events that give a page a second id, while it is on some tier by the first."""
    return told.aliases


@fact(2, ports=STREAM)
def batch_number(call: Batch) -> int | Unknown:
    """The number of the batch of events."""
    return UNKNOWN if call.number is None else call.number


@fact(2, ports=STREAM)
def number_taken(call: Batch) -> bool | Unknown:
    """Whether a batch with other events had the number of this one; unknown where batches have no numbers."""
    return UNKNOWN if call.number is None else call.taken


@fact(2, ports=("events",))
def told_length(state: State, setting: Setting, call: Match | Begin, match_cap: Tokens) -> Tokens | Unknown:
    """Units of the key, as far as a match may cover it, that are cached by the events before the call; of a flat cache."""
    if setting.config.tiered or setting.profile.event_delay:
        return UNKNOWN
    if call.within is not None:
        return UNKNOWN if call.within.told is None else call.within.told
    assert state.told is not None
    length = 0
    for name in call.path.pages[: match_cap // setting.size]:
        if name not in state.told.device:
            break
        length += setting.size
    return Tokens(length)


@fact(2)
def told_device(told: EventMirror) -> AbstractSet[Name]:
    """Names of the pages that are on the device by all events so far."""
    return told.device.keys()


@fact(2)
def told_host(told: EventMirror) -> AbstractSet[Name]:
    """Names of the pages that are on the host by all events so far."""
    return told.host.keys()


@fact(2)
def device_lately(
    then: State, setting: Setting, after: Seen, told_device: AbstractSet[Name]
) -> Sequence[AbstractSet[Name]] | Unknown:
    """What was on the device after the call, and after those before it as far as events may lag; without a snapshot as it is told, where that can be."""
    if setting.profile.event_delay:
        return UNKNOWN if lagging(then.late) or not setting.seen else [one.device for one in then.late.contents]
    if setting.seen:
        return (after.cached.keys(),)
    perhaps = then.device.pages.keys() - then.device.doubt.fallen
    surely = perhaps - then.device.doubt.open
    return (told_device if surely <= told_device <= perhaps else surely,)


@fact(2, ports=("tiers",))
def host_lately(
    then: State, setting: Setting, tiers_seen: TierSeen, told_host: AbstractSet[Name]
) -> Sequence[AbstractSet[Name]] | Unknown:
    """What was on the host after the call, and after those before it as far as events may lag; without a snapshot as it is told, where that can be."""
    if not setting.seen:
        certain, perhaps = surely(then.host), then.host.pages.keys()
        agreed = told_host if certain <= told_host <= perhaps else certain
        return UNKNOWN if setting.profile.event_delay else (agreed,)
    if not setting.profile.event_delay:
        return (frozenset(tiers_seen.hosted),)
    return UNKNOWN if lagging(then.late) else [one.host for one in then.late.contents]


def lagging(late: Late) -> bool:
    """Whether work was under way in one of the calls whose events may be the last that were told."""
    return any(one.busy for one in late.contents)


@fact(2, ports=("events",))
def found_lately(then: State, setting: Setting, call: PlainCall, answer: object) -> Collection[Name] | Unknown:
    """Pages that a match or a beginning request found cached, of which it must have been told by now."""
    return then.late.due if setting.profile.event_delay else found_by(call, answer, setting.size)


def found_by(call: PlainCall, answer: object, size: int) -> Collection[Name]:
    """The pages that a call found cached."""
    if isinstance(call, Match) and isinstance(answer, Hit):
        return call.path.pages[: answer.length // size]
    if isinstance(call, Begin) and isinstance(answer, Begun):
        return call.path.pages[: answer.cached // size]
    return ()


@fact(2)
def never_told(told: EventMirror, found_lately: Collection[Name]) -> Collection[Name]:
    """Those of them that no event has told of."""
    return [name for name in found_lately if name not in told.roots]


@fact(2)
def told_least(setting: Setting, told_length: Tokens) -> Tokens | Unknown:
    """The same, where a match ends with the last page that is there."""
    return UNKNOWN if setting.profile.match_ends == "node" or setting.expires else told_length


def remembered(then: State, setting: Setting, call: PlainCall, answer: object, after: Seen) -> State:
    """The state with what has to be remembered of this call, where events may lag."""
    busy = then.tiers is not None and bool(then.tiers.work)
    found = found_by(call, answer, setting.size)
    late = followed(then.late, setting.profile.event_delay, after, busy, found, isinstance(call, Reset))
    return then._replace(late=late)


# Rules

event_rule = partial(rule, needs=("events",), reference="prefix.event.changes")
stored_rule = partial(event_rule, source="R-EVT-01", premise="stored_events")
found_rule = partial(event_rule, source="R-EVT-02", reference="prefix.event.cached_changes", on=LOOKUPS)


@event_rule("EVENT-01", source="R-EVT-01", premise="events_told")
def events_make_sense(odd_events: Sequence[object]) -> bool:
    """An event MUST name a page that was told before or whose parent was, with the page's own units. It MUST NOT remove
    what isn't there.
    """
    return not odd_events


@event_rule(
    "EVENT-02",
    on=(On.SETTLED, On.QUIET_TICK, On.FLAT_CALL),
    source="R-EVT-02; map §4.12",
    allowed="exactly what is on the device, as listeners read it by the profile's event_copies",
    premise="told_device",
)
def events_tell_what_the_device_has(told_device: AbstractSet[Name], device_lately: Sequence[AbstractSet[Name]]) -> bool:
    """When nothing is under way, in a flat cache after every call, the events so far MUST tell exactly the pages that
    are on the device. As far as the profile lets events lag, they may tell the pages that were there after one of the
    last calls.
    """
    return told_device in device_lately


@event_rule("EVENT-03", on=(On.SETTLED, On.QUIET_TICK), source="R-EVT-02; H-34", premise="told_host")
def events_tell_what_the_host_has(told_host: AbstractSet[Name], host_lately: Sequence[AbstractSet[Name]]) -> bool:
    """When nothing is under way, the events so far MUST tell exactly the pages that are on the host, or were after one of the last calls, as far as the profile lets events lag."""
    return told_host in host_lately


@stored_rule("EVENT-04", allowed="each copy told once, by the profile's event_copies")
def a_copy_is_told_once(told_again: Sequence[str]) -> bool:
    """Where the profile says that copies count, a page MUST NOT be told as stored on a tier more often than it has copies there."""
    return not told_again


@stored_rule("EVENT-05")
def an_id_stands_for_one_page(told_renamed: Sequence[str]) -> bool:
    """What a page is called in events MUST NOT be another page's name as long as that one is on any tier by the events."""
    return not told_renamed


@stored_rule("EVENT-06")
def an_event_names_the_namespace(told_strays: Sequence[str]) -> bool:
    """An event of a stored page MUST name the namespace of the page before it."""
    return not told_strays


@stored_rule("EVENT-07")
def parents_are_told_first(told_orphans: Sequence[str]) -> bool:
    """A page MUST NOT be told as stored while the page before it is on no tier by the events before."""
    return not told_orphans


@found_rule("EVENT-08", allowed="at most {told_length} units", premise="match_length")
def what_is_matched_was_told(match_length: Tokens, told_length: Tokens) -> bool:
    """Each page that a match on a flat cache covers MUST be there by the events before it."""
    return match_length <= told_length


@found_rule("EVENT-09", allowed="at least {told_least} units", premise="told_length")
def what_was_told_is_matched(match_length: Tokens, told_least: Tokens) -> bool:
    """A match on a flat cache MUST cover what is there by the events before it, as far as the profile lets it."""
    return match_length >= told_least


@rule(
    "EVENT-10",
    on=(On.FLAT_CALL,),
    needs=("events",),
    source="R-EVT-01, R-EVT-02",
    reference="prefix.event.cached_changes",
    premise="found_lately",
)
def what_is_found_is_told_in_time(never_told: Collection[Name]) -> bool:
    """A page of a flat cache that was found cached MUST have been told as stored, as many calls after the one before as the profile lets events lag."""
    return not never_told


@rule(
    "EVENT-11",
    on=(On.BATCH,),
    source="R-EVT-01; vllm EventPublisher: at least once, in monotonic order",
    allowed="one batch with the number {batch_number}",
)
def a_number_stands_for_one_batch(number_taken: bool) -> bool:
    """Two batches of events that a publisher sends MUST NOT have one number, as long as it isn't started again: who hears both takes one for the other sent again."""
    return not number_taken


@rule(
    "EVENT-12",
    strength=Strength.SHOULD,
    needs=STREAM,
    source="R-EVT-01; vllm#58119",
    reference="prefix.event.changes",
    allowed="one name for each page, and for what follows it",
    premise="stored_events",
)
def a_page_has_one_id(told_aliases: Sequence[str]) -> bool:
    """A published event SHOULD call a page what it was called before, as long as the page is on any tier by the events."""
    return not told_aliases
