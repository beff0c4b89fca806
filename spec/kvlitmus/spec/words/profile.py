"""The legal choices that a cache declares because they decide outcomes, and what is legal there."""

from __future__ import annotations

from dataclasses import dataclass

from kvlitmus.spec.words.choices import checked, legal_values, one_of, within
from kvlitmus.spec.words.policies import PARENTS, SLRU_HITS

MANY = 1 << 20
"""The most pages, calls or uses of which a profile speaks."""


@checked("profile")
@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The legal choices that decide outcomes; declared, so that nobody has to guess.  Raises ``ValueError`` for what isn't legal (:data:`PROFILE_VALUES`).

    reserved: pages at the start of the pool that are never handed out (0 or 1).
    align: what an allocation does with a size that is no multiple of the page: ``reject``
        (raises) or ``round_up``.
    evict_granularity: an eviction removes whole ``node`` s or single ``page`` s.
    evict_moment: memory is only taken from the tree in an explicit ``evict`` (``call``), or also
        inside an allocation (``alloc``).
    evict_order: leaves go in the order of the configuration's ``policy``, on the device as on the host; or in an order of the
        cache's ``own`` (at random, S3-FIFO, by size and cost), which isn't judged.  What goes, and how much, is judged all the same.
    evict_slack: pages that a cache which makes room on its own account may keep free beyond what the call takes.  An
        explicit ``evict`` takes what was asked for.
    evict_amount: where memory is short a cache evicts what it lacks (``lack``), or as much as the call needs in all,
        whatever is free (``need``).
    evict_batch: pages go in batches of so many, on either tier: an eviction that has begun may go on to the end of a batch, though
        less was asked for or lacking.
    expiry: pages stay until room is made (``never``); or a match, and a request that begins or publishes, may let go of whatever
        nothing protects because it is old (``lookup``): how old, the cache decides.  Of flat caches.
    watermark: so many pages that could be free or evicted may be kept for requests that grow: a request that would leave fewer
        when it begins may be refused.
    spare_pages: so many pages a running request may hold beside those of its row, for tokens to come, as speculative decoding
        does: it takes them when it begins or grows, which may be refused for want of them, and gives them back when it ends
        (:mod:`kvlitmus.spec.prefix.spare_pages`).  Of flat caches that publish explicitly.
    refused_begin: whether a request that is refused was a use of the prefix that was found for it (``renews``) or
        not (``keeps``).
    aborted: what a request has computed that is aborted or retracted, and didn't publish, is given back (``dropped``); or cached
        (``kept``), as if it had finished.  A cache that is told of requests computed in part (port ``partial``) can't know how
        far an aborted one has come, and keeps no more than was published.
    admission: what a request publishes, or leaves when it finishes, is cached to its last whole page (``all``); or a filter of the
        cache's ``own`` may end it at an earlier one, and what is behind that stays the request's, or is free when it has
        finished.  What is cached already is shared all the same.  An ``insert`` is what its caller wants cached, and takes all.
    match_cap: a match may cover the whole key (``full``) or leaves one token to compute
        (``len-1``).
    match_ends: a match ends with the last page that is cached (``page``), or, where a key leaves a node in its middle, may
        end with the node before (``node``); or it may end ``inside`` a page, where a cached page begins like the key.  Of such
        a page a request has its own copy, as far as they are alike, and what is alike needn't be computed; no lock protects
        it, and it wasn't used.  Of flat caches that publish explicitly.
    duplicates: after an insert of what was cached already, the slots that were brought for it, duplicates, are freed
        by the caller (``caller_frees``), by the cache (``cache_frees``), or stay the caller's
        (``kept``); in a block table, which has no insert, all places of a prefix are kept.
    publish: pages become matchable by an explicit call (``explicit``) or when they are allocated (``at_alloc``): a
        block table (:mod:`kvlitmus.spec.prefix.tables`), whose free pages are found until they are handed out.
    table_gaps: a page goes when the page before it goes, or earlier (``none``); or a block table may keep it, as a hash
        table does, though no match gets there until the page before it comes again (``left``).  A cache that publishes
        explicitly leaves no gaps: who owns what an insert brings for a page behind one is not specified.
    release_delay: so many later calls that give memory back, at most, until what is given back to the device is on the
        free list (:mod:`kvlitmus.spec.prefix.release`); 0 where there is no release queue.
    release_moment: what is given back to the device is on the free list at once, or by the ``release_delay`` (``given``); or it
        waits for the next call that takes memory, which reclaims all of it first, whatever the delay (``taken``).  Of flat
        caches.
    event_delay: so many calls after the one that changed something, at most, its events are told: together, and after those of
        the calls before.
    event_copies: what somebody keeps who listens to the events (:mod:`kvlitmus.spec.prefix.listener`), of pages and of
        entries of components alike: a count of ``each`` one's copies, which are told one by one; or ``one`` name for all
        copies, which is told as removed when the last of them goes, and may be told as stored again while it is there.
    hit_counts: what raises the count used by LFU and SLRU: ``insert`` (a new node starts with 1),
        ``match``, or ``none``.  Write policies count inserts, whatever this says.
    most_hits: counts of hits stop here, as with counters of a few bits, so that what was used more often is worth no more; 0 where
        they don't stop.
    lock_touches: whether taking a lock counts as a use for recency.
    unlock_touches: whether giving a lock back counts as a use for recency, that of an ended request included.
    unlock_delay: so many later calls, at most, until a lock that was given back ends to protect its path, that of a request
        that ends or publishes included (:mod:`kvlitmus.spec.prefix.late_locks`).  Of flat caches that publish explicitly.
    split_created: whether the upper half of a split node keeps the creation time (``keeps``) or
        gets a new one (``renews``); FIFO and FILO follow it.
    slru_hits: how many hits put a page into the protected segment of SLRU.
    clock: recency comes from a ``counter`` or from a ``wall`` clock that the adapter orders.
    tick_uses: so many uses in a row, at most, share a tick of that clock, so that none of them is known to be the older.
    misuse: what happens to a call that the contract forbids: ``reject`` (raises), ``ignore``
        (nothing changes), or ``undefined`` (not judged).

    Of the keys that it takes (:mod:`kvlitmus.spec.words.limits`); no others are passed:

    least_key: the fewest tokens of a key; 0 where an empty prompt is one.
    vocabulary: tokens are below this number.
    namespaces: a namespace is any short ``text``, or made of two ``parts`` with a ``/`` between, such as an adapter and
        a salt; or there are ``none``.

    Of hierarchies:

    attach: storage comes and goes at ``any_time``, or is attached ``at_start`` for good.
    reserve: a prefetch takes host memory when it is asked for (``submit``) or when storage has told
        how much it has (``hit``).
    backup_parent: what happens to a page whose parent isn't backed when it is due for backup: it waits
        (``skip``), or its ancestors go first (``chain``).
    backup_filter: whether a page that is due for backup may stay without a host copy because a filter of the cache's ``own``
        declines it, at this use or at every one, or none is left out but for want of memory (``none``).  What is below
        such a page waits with it; nothing is backed up before it is due; under write-back there is no filter.
    backup_moment: a backup begins with the insertion that makes its page due (``insert``), or may be left to the next tick
        (``tick``).
    copy_acks: copies of one kind, and the rows of a sparse pool that are staged, are acknowledged in the order in which
        they began (``in_order``), or as they end, in ``any_order``, as with several streams.  Several ranks agree on how
        many have ended, so theirs always are in order.
    copy_locks: whether a copy under way between device and host counts among the locks that nodes show and what counters
        tell as protected (``counted``), or protects what it copies ``apart`` from these, by a mark of its own.
    fill_matched: whether a commit gives what it read to pages that are on the device alone.
    load_threshold: fewer units than these are not worth a load back.
    timeout: base, seconds per 1024 units, and most seconds (0: no limit) that a prefetch may take
        under the stop policy ``timeout``.
    timeout_basis: the units that count are those found in storage (``hit``) or those ``requested``.
    timeout_from: time runs from the ``submit`` or from the ``first_poll``.
    restored_counts: whether the insert that brings a page back to the device counts as a hit.
    commit: what a fetch has read counts at once, and gets into the tree when the request polls (``poll``);
        or it counts from the next tick on, which also commits a fetch that has ended (``tick``).
    host_duplicates: under write-back an eviction of the host leaves the host copies of pages that are on the device
        too (``kept``), or may drop them first (``reclaimed``).
    second_prefetch: what comes of a prefetch for a request that waits for one already: it is ``refused``, or nobody
        may ask (``undefined``).

    Of the names of pages:

    hash_scheme: the scheme by which pages are named in storage (:mod:`kvlitmus.spec.words.schemes`): ``kvlitmus-2`` and
        ``sglang-1`` are known, and judged byte by byte; under any other name only what every scheme owes is judged.

    Of page stores:

    store_put: of two values put under one key, the ``first`` or the ``last`` is kept, or ``either``.
    store_checks: a read makes sure of all ``bytes`` of an object, or of its ``length`` alone.
    store_room: a store keeps everything that it took until it is cleared, and takes all (``endless``); or it may refuse a
        put for want of room, by answering that it didn't store it (``refuses``); or it makes room and evicts, or
        refuses, but only in a put (``evicts``): what was there just before may be gone after it.

    Of sparse host pools:

    sparse_count: a request for no tokens, or for fewer, is answered with no slots whatever its start (``empty``); or its
        start is looked at all the same, and a negative count is refused (``reject``).
    sparse_staged: a request that was staged and is longer than its buffer begins to decode with its ``first`` tokens in the
        buffer, or with ``nothing`` there.
    sparse_ratio: so many tokens of the model are compressed to one that has a slot on the host, and a place on the device.
    sparse_grows: a row's buffer takes device slots by the ``page``, as its sequence grows, or it is ``whole`` from the beginning.

    Of components:

    window_root: near the root a window needs no more than there is (``shorter``), or a prefix that is shorter than the
        window can't be used (``full``).
    component_cascade: what else an eviction takes with an entry: nothing (``none``); with KV what the other components
        have for the same prefix (``base``); that, and with an entry of another component at a prefix that no KV extends the KV
        and all else there (``leaf``); or that, and with any entry what the components after its own, in the order of the
        layout, have for the same prefix (``later``).
    component_order: the entries that nobody needs go in an order of the cache's ``own``; or, where they go one by one, by the
        eviction ``policy`` of the configuration: a hit uses what it names, and an insert, a commit or a request what it brings;
        whether a call uses what else is on its path, the cache may decide.
    component_grants: places are granted for ``each`` component by itself; or a window's come with those of KV and are tied
        to them (``paired``): no more of them are asked for than of KV, the last of KV have them, an insert brings both
        for the same prefixes up to the end of what it brings, and they are given back together; or so, and an insert
        brings at least the ``whole`` window that its end needs, but for what is cached before it.
    component_refill: an insert that brings KV and a window's entry for a prefix whose KV is cached and whose window's is
        not takes the window's alone (``fills``); or the KV as well, in place of the one that was cached, which is free
        then, unless a receipt covers that (``replaces``).
    component_points: an insert brings states for ``any`` boundaries, or for none; or, of each component of states, one
        for the ``end`` of its key.
    component_copies: where two requests compute the same, one entry is cached and the other stays its request's
        (``one``), or both are cached (``kept``).
    component_drop: a hit ends at a boundary, and drops ``none`` of what is cached behind; or drops the ``last``
        entries: a boundary counts where every component but states has the entry behind it, too, which the hit leaves to
        be computed again, as speculative decoding with EAGLE needs it.  It holds of hits, not of copies, writes and prefetches.
    component_landing: what a copy between device and host brings is cached when it has ``ended``, if it went well; or from
        the moment it has ``begun``, and stays until it has ended.  Copies that are cached from their beginning can't
        fail, and the suite ends those of one direction in the order in which they began.
    component_extent: a copy takes what its ``boundary`` needs; or besides what belongs to prefixes on its ``path``, as by
        nodes, and may protect all of that until it ends, as may a write to storage, and a prefetch what is on the path to
        its anchor; a backup may then make room for each boundary on its path in turn, and stop earlier where it finds too
        little.
    component_host_spares: an eviction from the host spares ``nothing`` but what copies and writes need, or may spare what
        the ``device`` has too.
    component_shortfall: where something that a prefetch reads did not come, the KV before the first hole in it is
        ``kept``, with whatever else came whole; or all of it is ``dropped``, and given back.
    component_fetch_window: a prefetch takes a window ``whole`` or not at all; or, from the ``root``, what there is of
        it; or also behind an ``anchor``, whose own window is the rest of it.

    Of these, ``evict_granularity`` and ``duplicates`` hold for caches of components too.  By ``node``: an eviction
    goes on to the end of what one insert brought at once, and a receipt may cover a window back to there.
    """

    reserved: int = within(0, 1, usual=1)
    align: str = one_of("reject", "round_up")
    evict_granularity: str = one_of("page", "node")
    evict_moment: str = one_of("call", "alloc")
    evict_order: str = one_of("policy", "own")
    evict_slack: int = within(0, MANY)
    evict_amount: str = one_of("lack", "need")
    evict_batch: int = within(1, MANY)
    expiry: str = one_of("never", "lookup")
    watermark: int = within(0, MANY)
    spare_pages: int = within(0, MANY)
    refused_begin: str = one_of("renews", "keeps")
    aborted: str = one_of("dropped", "kept")
    admission: str = one_of("all", "own")
    match_cap: str = one_of("full", "len-1")
    match_ends: str = one_of("page", "node", "inside")
    duplicates: str = one_of("caller_frees", "cache_frees", "kept")
    publish: str = one_of("explicit", "at_alloc")
    table_gaps: str = one_of("none", "left")
    release_delay: int = within(0, MANY)
    release_moment: str = one_of("given", "taken")
    event_delay: int = within(0, MANY)
    event_copies: str = one_of("each", "one")
    hit_counts: str = one_of("insert", "match", "none")
    most_hits: int = within(0, MANY)
    lock_touches: bool = False
    unlock_touches: bool = False
    unlock_delay: int = within(0, MANY)
    split_created: str = one_of("keeps", "renews")
    slru_hits: int = within(1, MANY, usual=SLRU_HITS)
    clock: str = one_of("counter", "wall")
    tick_uses: int = within(1, MANY)
    misuse: str = one_of("undefined", "reject", "ignore")
    attach: str = one_of("any_time", "at_start")
    reserve: str = one_of("submit", "hit")
    backup_parent: str = one_of(*PARENTS)
    backup_filter: str = one_of("none", "own")
    backup_moment: str = one_of("insert", "tick")
    copy_acks: str = one_of("in_order", "any_order")
    copy_locks: str = one_of("counted", "apart")
    fill_matched: bool = False
    load_threshold: int = within(0, 1 << 30)
    timeout: tuple[float, float, float] = (2.0, 0.1, 30.0)
    timeout_basis: str = one_of("hit", "requested")
    timeout_from: str = one_of("submit", "first_poll")
    restored_counts: bool = False
    commit: str = one_of("poll", "tick")
    host_duplicates: str = one_of("kept", "reclaimed")
    second_prefetch: str = one_of("refused", "undefined")
    hash_scheme: str = "other"
    store_put: str = one_of("first", "last", "either", usual="either")
    store_checks: str = one_of("bytes", "length")
    store_room: str = one_of("endless", "refuses", "evicts")
    sparse_count: str = one_of("empty", "reject")
    sparse_staged: str = one_of("first", "nothing")
    sparse_ratio: int = within(1, 128)
    sparse_grows: str = one_of("page", "whole")
    least_key: int = within(0, MANY)
    vocabulary: int = within(2, 1 << 32, usual=1 << 32)
    namespaces: str = one_of("text", "none", "parts")
    window_root: str = one_of("shorter", "full")
    component_cascade: str = one_of("none", "base", "leaf", "later", usual="base")
    component_order: str = one_of("own", "policy")
    component_grants: str = one_of("each", "paired", "whole")
    component_refill: str = one_of("fills", "replaces")
    component_points: str = one_of("any", "end")
    component_copies: str = one_of("one", "kept")
    component_drop: str = one_of("none", "last")
    component_landing: str = one_of("ended", "begun")
    component_extent: str = one_of("boundary", "path")
    component_host_spares: str = one_of("nothing", "device")
    component_shortfall: str = one_of("kept", "dropped")
    component_fetch_window: str = one_of("whole", "root", "anchor")


PROFILE_VALUES = legal_values(Profile)
"""What is legal in a profile.  A field of text that isn't here may be any short text: it is somebody's own name."""
