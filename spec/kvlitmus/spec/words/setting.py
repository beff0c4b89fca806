"""What one run is about: what was asked for, what was declared, and how deeply it is observed."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.layouts import Layout, layout_of
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.policies import Order, worth
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import PageNo, Tokens, page_floor

EVENTS = 2
"""The depth of events."""

SNAPSHOT = 3
"""The depth of a full snapshot."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What facts need to know beside the steps."""

    config: Config
    """What the cache was asked to be."""
    profile: Profile
    """The choices that it declares."""
    depth: int
    """How deeply it is observed."""
    capabilities: frozenset[str]
    """The ports that it has."""
    names: Names = field(default_factory=Names, compare=False, repr=False)
    """The table by which prefixes are named; it grows, but a prefix keeps its name."""
    places: frozenset[PageNo] | None = field(default=None, compare=False, repr=False)
    """The pages of the pool, where what they are numbered by is the cache's own affair and was seen."""
    host_places: frozenset[PageNo] | None = field(default=None, compare=False, repr=False)
    """The same of the host pool."""
    size: int = field(init=False)
    """Slots in a page."""
    usable: frozenset[PageNo] = field(init=False)
    """The pages that the pool may hand out."""
    host_usable: frozenset[PageNo] = field(init=False)
    """Those of the host pool."""
    seen: bool = field(init=False)
    """Whether there is a snapshot after each call, so that nothing is doubtful."""
    capacity: Tokens = field(init=False)
    """The slots of all usable pages."""
    renews: bool = field(init=False)
    """Whether a node that is split counts as created anew."""
    table: bool = field(init=False)
    """Whether the cache is a block table (:mod:`kvlitmus.spec.prefix.tables`)."""
    own_order: bool = field(init=False)
    """Whether victims go in an order of the cache's own, so that no leaf comes before another."""
    expires: bool = field(init=False)
    """Whether what nothing protects may go whenever somebody looks."""
    reclaims: bool = field(init=False)
    """Whether what was given back is free when the next call takes memory."""
    unlock_delay: int = field(init=False)
    """How many calls later a lock that was given back ends at the latest."""
    spare_pages: int = field(init=False)
    """How many pages a running request may hold beside those of its row."""
    inside: bool = field(init=False)
    """Whether a match may end inside a page."""
    filters: bool = field(init=False)
    """Whether a request may leave less than all its whole pages: a filter of the cache's own ends what it caches."""
    layout: Layout = field(init=False, compare=False)
    """The components that it keeps, where it is a cache of components."""

    def __post_init__(self) -> None:
        config, profile = self.config, self.profile
        reserved = profile.reserved if config.pool == "device" else 0
        tiered = self.depth >= SNAPSHOT and "tiers" in self.capabilities
        object.__setattr__(self, "size", config.page_size)
        object.__setattr__(self, "capacity", Tokens(config.pages * config.page_size))
        usable = (
            frozenset(map(PageNo, range(reserved, reserved + config.pages))) if self.places is None else self.places
        )
        object.__setattr__(self, "usable", usable)
        below = frozenset(map(PageNo, range(config.host_pages))) if self.host_places is None else self.host_places
        object.__setattr__(self, "host_usable", below)
        object.__setattr__(self, "seen", self.depth >= SNAPSHOT)
        object.__setattr__(self, "layout", self.laid_out())
        object.__setattr__(self, "table", profile.publish == "at_alloc")
        object.__setattr__(self, "own_order", profile.evict_order == "own")
        object.__setattr__(self, "expires", profile.expiry == "lookup" and not config.tiered)
        object.__setattr__(self, "reclaims", profile.release_moment == "taken" and not config.tiered)
        plain = not (config.tiered or config.apart or self.table)
        object.__setattr__(self, "unlock_delay", profile.unlock_delay if plain else 0)
        object.__setattr__(self, "inside", plain and profile.match_ends == "inside")
        own = plain and "composed" not in self.capabilities
        object.__setattr__(self, "spare_pages", profile.spare_pages if own else 0)
        object.__setattr__(self, "filters", profile.admission == "own" and "composed" not in self.capabilities)
        # Of hierarchies nobody asks: their nodes come and go with demotions, and the policies that go by creation are
        # judged on flat caches.
        object.__setattr__(self, "renews", not tiered and profile.split_created == "renews")

    def laid_out(self) -> Layout:
        """The components of the configuration, and their pools on each tier."""
        config = self.config
        return layout_of(config.components, config.page_size, config.pages, config.host_pages)

    @property
    def filters_in_sight(self) -> bool:
        """Whether a filter of the cache's own decides what it keeps, and a look after each call shows what that was."""
        return self.filters and self.seen

    @property
    def bare(self) -> bool:
        """Whether it is a pool alone, in which nothing can be found."""
        return "pool" in self.capabilities and self.capabilities.isdisjoint(("lookup", "requests"))

    @property
    def fetches_to(self) -> str:
        """The tier to which prefetches bring pages: the host, but the device of a pool of components."""
        return "device" if "component_prefetch" in self.capabilities else "host"

    @property
    def steps(self) -> bool:
        """Whether the jobs can be seen, and go on one by one."""
        return "steps" in self.capabilities

    @property
    def keeps_aborted(self) -> bool:
        """Whether an abort is to the cache what a finish is: it keeps what was computed, and knows that this is all."""
        return self.profile.aborted == "kept" and self.capabilities.isdisjoint(("partial", "composed"))

    @property
    def order(self) -> Order:
        """What pages are worth under the policy of the configuration."""
        return worth(self.config.policy, self.profile.slru_hits, self.profile.most_hits)

    def in_batches(self, pages: int) -> int:
        """How many pages may go where so many are to go: whole batches, as the profile declares."""
        batch = self.profile.evict_batch
        return -(-pages // batch) * batch

    def counted(self, hits: int) -> int:
        """How many of so many hits a cache has counted."""
        return min(hits, self.profile.most_hits or hits)

    @property
    def ties(self) -> int:
        """Of uses that are no more ticks apart than this nobody knows which the cache takes for the older."""
        return self.profile.tick_uses - 1

    def cap(self, units: int) -> Tokens:
        """The longest match of whole pages that the profile allows for a key of this many units."""
        return page_floor(self.most_found(units), self.size)

    def most_found(self, units: int) -> Tokens:
        """The same where matches may end inside a page."""
        return Tokens(max(0, units - 1) if self.profile.match_cap == "len-1" else units)
