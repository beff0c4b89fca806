"""Caches that keep several kinds of state for a prefix (COMP, CREQ).

- :mod:`~kvlitmus.spec.components.calls`: the calls, as values.
- :mod:`~kvlitmus.spec.components.state`: what is known.
- :mod:`~kvlitmus.spec.components.advance`: what an answered call amounts to.
- :mod:`~kvlitmus.spec.components.steps`: the steps of one call.
- :mod:`~kvlitmus.spec.components.plain`: its pools, as the plain caches that they are as well.
- :mod:`~kvlitmus.spec.components.plain_calls`: what a call is to one of them.
- :mod:`~kvlitmus.spec.components.plain_requests`: the same of a cache that serves requests.
- :mod:`~kvlitmus.spec.components.evictions`: what may go.
- :mod:`~kvlitmus.spec.components.copies`: what a copy between the tiers may take.
- :mod:`~kvlitmus.spec.components.fetch`: how a prefetch is reserved, read and committed.
- :mod:`~kvlitmus.spec.components.storage`: what storage can restore.
- :mod:`~kvlitmus.spec.components.replay`: what events tell.
- :mod:`~kvlitmus.spec.components.uses`: how long ago, and how often, an entry was used.
- :mod:`~kvlitmus.spec.components.tree`: rules of pools, hits, inserts, locks and evictions.
- :mod:`~kvlitmus.spec.components.tree_facts`: their facts.
- :mod:`~kvlitmus.spec.components.prefetch`: rules of prefetches.
- :mod:`~kvlitmus.spec.components.fetch_facts`: their facts.
- :mod:`~kvlitmus.spec.components.host`: rules of host memory.
- :mod:`~kvlitmus.spec.components.host_facts`: their facts.
- :mod:`~kvlitmus.spec.components.policies`: rules of backups that a cache begins by itself.
- :mod:`~kvlitmus.spec.components.policy_facts`: their facts.
- :mod:`~kvlitmus.spec.components.storing`: rules of storage behind the host.
- :mod:`~kvlitmus.spec.components.storing_facts`: their facts.
- :mod:`~kvlitmus.spec.components.order`: rules of the order of evictions.
- :mod:`~kvlitmus.spec.components.order_facts`: their facts.
- :mod:`~kvlitmus.spec.components.requests`: rules of caches that serve requests by themselves.
- :mod:`~kvlitmus.spec.components.request_facts`: their facts.
"""
