"""The rules of caches of prefixes, part by part, each part with its facts.

- :mod:`~kvlitmus.spec.prefix.rules.observed`: facts of every call.
- :mod:`~kvlitmus.spec.prefix.rules.pool`: who owns a slot (POOL).
- :mod:`~kvlitmus.spec.prefix.rules.tree`: which prefixes are cached, and where (TREE).
- :mod:`~kvlitmus.spec.prefix.rules.lock`: what must not go away (LOCK).
- :mod:`~kvlitmus.spec.prefix.rules.evict`: making room (EVICT).
- :mod:`~kvlitmus.spec.prefix.rules.order`: whether victims follow the policy.
- :mod:`~kvlitmus.spec.prefix.rules.room`: what the host could choose from, and how much it lacked.
- :mod:`~kvlitmus.spec.prefix.rules.request`: who owns which slots while a request runs (REQ).
- :mod:`~kvlitmus.spec.prefix.rules.unseen`: what answers and counters say without a snapshot.
- :mod:`~kvlitmus.spec.prefix.rules.flush`: forgetting what nobody protects (EVICT).
- :mod:`~kvlitmus.spec.prefix.rules.hashing`: names of pages (HASH).
- :mod:`~kvlitmus.spec.prefix.rules.prefetch`: how much is fetched, decided before (PREFETCH).
- :mod:`~kvlitmus.spec.prefix.rules.below`: what is seen below the device.
- :mod:`~kvlitmus.spec.prefix.rules.tier`: where a page is (TIER).
- :mod:`~kvlitmus.spec.prefix.rules.backup`: copies further down (BACKUP).
- :mod:`~kvlitmus.spec.prefix.rules.count`: what the host counts.
- :mod:`~kvlitmus.spec.prefix.rules.job`: the life of a job.
- :mod:`~kvlitmus.spec.prefix.rules.copies`: copies stay where they are.
- :mod:`~kvlitmus.spec.prefix.rules.load`: load back (LOAD).
- :mod:`~kvlitmus.spec.prefix.rules.fetch`: the life of a prefetch (FETCH).
- :mod:`~kvlitmus.spec.prefix.rules.storage_use`: who goes to storage, and until when.
- :mod:`~kvlitmus.spec.prefix.rules.life`: storage that comes and goes, a fresh start, and rest (LIFE).
- :mod:`~kvlitmus.spec.prefix.rules.event`: what a cache tells (EVENT).
"""
