"""Caches that keep several kinds of state for a prefix (COMP, CREQ).

- :mod:`~kvlitmus.spec.prefix.components.calls`: what calls ask for, and what they answer.
- :mod:`~kvlitmus.spec.prefix.components.state`: what follows from what is known.
- :mod:`~kvlitmus.spec.prefix.components.entries`: what comes to a tier, leaves it, or may have left it.
- :mod:`~kvlitmus.spec.prefix.components.advance`: what an answered call amounts to.
- :mod:`~kvlitmus.spec.prefix.components.steps`: the steps of one call.
- :mod:`~kvlitmus.spec.prefix.components.plain`: its pools, as the plain caches that they are as well.
- :mod:`~kvlitmus.spec.prefix.components.plain_calls`: what a call is to one of them.
- :mod:`~kvlitmus.spec.prefix.components.plain_requests`: the same of a cache that serves requests.
- :mod:`~kvlitmus.spec.prefix.components.hierarchy`: a pool on both tiers, as the plain hierarchy that it is as well.
- :mod:`~kvlitmus.spec.prefix.components.evictions`: what may go.
- :mod:`~kvlitmus.spec.prefix.components.copies`: what a copy between the tiers may take.
- :mod:`~kvlitmus.spec.prefix.components.fetch`: how a prefetch is reserved, read and committed.
- :mod:`~kvlitmus.spec.prefix.components.replay`: what events tell.
- :mod:`~kvlitmus.spec.prefix.components.uses`: how long ago, and how often, an entry was used.
- :mod:`~kvlitmus.spec.prefix.components.tree`: rules of pools, hits, inserts, locks and evictions.
- :mod:`~kvlitmus.spec.prefix.components.prefetch`: rules of prefetches.
- :mod:`~kvlitmus.spec.prefix.components.ends`: what ends gives back, rule and facts.
- :mod:`~kvlitmus.spec.prefix.components.host`: rules of host memory.
- :mod:`~kvlitmus.spec.prefix.components.policies`: rules of backups that a cache begins by itself.
- :mod:`~kvlitmus.spec.prefix.components.storing`: rules of storage behind the host.
- :mod:`~kvlitmus.spec.prefix.components.order`: rules of the order of evictions.
- :mod:`~kvlitmus.spec.prefix.components.requests`: rules of caches that serve requests by themselves.
"""
