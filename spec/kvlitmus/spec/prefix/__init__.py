"""A cache of prefixes, with host memory and storage below the device or without.

- :mod:`~kvlitmus.spec.prefix.page`: cached pages, and the tree that they make up.
- :mod:`~kvlitmus.spec.prefix.calls`: the calls on the device.
- :mod:`~kvlitmus.spec.prefix.tier_calls`: those on what is below it.
- :mod:`~kvlitmus.spec.prefix.hash_calls`: those on a hasher of pages.
- :mod:`~kvlitmus.spec.prefix.prefetch_plan`: a prefetch plan as a call.
- :mod:`~kvlitmus.spec.prefix.tier_occasions`: which occasions calls below the device are.
- :mod:`~kvlitmus.spec.prefix.state`: what is known.
- :mod:`~kvlitmus.spec.prefix.tier_state`: what is known below the device.
- :mod:`~kvlitmus.spec.prefix.host_state`: what only the cache itself has to remember there.
- :mod:`~kvlitmus.spec.prefix.effects`: elementary changes of the state.
- :mod:`~kvlitmus.spec.prefix.advance`: what an answered call amounts to.
- :mod:`~kvlitmus.spec.prefix.tier_advance`: the same below the device.
- :mod:`~kvlitmus.spec.prefix.prefetch_advance`: of prefetches.
- :mod:`~kvlitmus.spec.prefix.storage_advance`: of storage.
- :mod:`~kvlitmus.spec.prefix.tables`: of block tables.
- :mod:`~kvlitmus.spec.prefix.release`: what is given back and not yet free.
- :mod:`~kvlitmus.spec.prefix.seen`: what was seen of the cache.
- :mod:`~kvlitmus.spec.prefix.replay`: what events tell.
- :mod:`~kvlitmus.spec.prefix.late_events`: what they may tell late.
- :mod:`~kvlitmus.spec.prefix.partial`: what remains known where evictions aren't seen.
- :mod:`~kvlitmus.spec.prefix.windows`: what evictions may have taken that nobody saw.
- :mod:`~kvlitmus.spec.prefix.tier_unseen`: what is known below the device without a snapshot.
- :mod:`~kvlitmus.spec.prefix.host_known`: of the host without one.
- :mod:`~kvlitmus.spec.prefix.memory_needed`: how much memory a call needs, and how much may be evicted for it.
- :mod:`~kvlitmus.spec.prefix.stand_ins`: which rules say with less to see what others say.
- :mod:`~kvlitmus.spec.prefix.frame`: what a step may change.
- :mod:`~kvlitmus.spec.prefix.rules`: the rules, part by part.
"""
