"""What must hold of a KV cache: the vocabulary, what calls amount to, and the rules, part by part.

A **rule** is a typed, pure, total predicate over named **facts**; its docstring is the normative sentence.  In this order
it is best read; what the page *Implement a cache* (``docs/implement.md``) says of flat caches is rendered from here.

The words: :mod:`~kvlitmus.spec.units`, :mod:`~kvlitmus.spec.names` (of prefixes).

What is asked and answered: :mod:`~kvlitmus.spec.interface` (what a cache may offer), :mod:`~kvlitmus.spec.config` and
:mod:`~kvlitmus.spec.profile` (what it is asked to be, and the legal choices that it declares; refused by
:mod:`~kvlitmus.spec.choices` where they are none, in the words of :mod:`~kvlitmus.spec.text`),
:mod:`~kvlitmus.spec.policies` (what a cache decides by).

What is known, and how it changes: :mod:`~kvlitmus.spec.page` and :mod:`~kvlitmus.spec.state`, elementary
:mod:`~kvlitmus.spec.effects` on it, :mod:`~kvlitmus.spec.calls` as values, and :mod:`~kvlitmus.spec.advance`, which says
what an answered call amounts to; :mod:`~kvlitmus.spec.partial` and :mod:`~kvlitmus.spec.windows`, what remains known where
evictions aren't seen; :mod:`~kvlitmus.spec.tables`, block tables; :mod:`~kvlitmus.spec.release`, what is given back and not yet free; :mod:`~kvlitmus.spec.limits`, the keys that a cache
takes; :mod:`~kvlitmus.spec.replay`, what events tell, and :mod:`~kvlitmus.spec.late`, what they may tell late;
:mod:`~kvlitmus.spec.trust`, what is not believed any more after a broken rule.  For tiers
:mod:`~kvlitmus.spec.tier_state`, :mod:`~kvlitmus.spec.host_state` (what only the cache itself knows),
:mod:`~kvlitmus.spec.tier_calls`, :mod:`~kvlitmus.spec.tier_advance`, :mod:`~kvlitmus.spec.storage_advance`,
:mod:`~kvlitmus.spec.prefetch_advance` and :mod:`~kvlitmus.spec.prefetch_plan`, without a snapshot
:mod:`~kvlitmus.spec.tier_unseen` and :mod:`~kvlitmus.spec.host_known`; for page stores
:mod:`~kvlitmus.spec.store_state` and :mod:`~kvlitmus.spec.store_calls`; for sparse host pools
:mod:`~kvlitmus.spec.sparse_state`, :mod:`~kvlitmus.spec.sparse_buffer` and :mod:`~kvlitmus.spec.sparse_calls`; for components
:mod:`~kvlitmus.spec.component_shapes` (which boundaries are valid), :mod:`~kvlitmus.spec.component_layouts`,
:mod:`~kvlitmus.spec.component_calls`, :mod:`~kvlitmus.spec.component_state`,
:mod:`~kvlitmus.spec.component_advance`, :mod:`~kvlitmus.spec.component_steps`,
:mod:`~kvlitmus.spec.component_evictions` (what may go), :mod:`~kvlitmus.spec.component_storage` (what can be restored) and
:mod:`~kvlitmus.spec.component_fetch` (how it is fetched), :mod:`~kvlitmus.spec.component_copies` (what is copied between
the tiers), :mod:`~kvlitmus.spec.component_told` (what events tell), :mod:`~kvlitmus.spec.component_uses` (how long ago, and how
often, an entry was used); for several ranks
:mod:`~kvlitmus.spec.rank_state` and :mod:`~kvlitmus.spec.rank_calls`; beside these :mod:`~kvlitmus.spec.hash_calls`
and :mod:`~kvlitmus.spec.misuse_calls`, and :mod:`~kvlitmus.spec.schemes` (how pages are named).  What goes on in the
background has legal :mod:`~kvlitmus.spec.transitions`, in :mod:`~kvlitmus.spec.job` and
:mod:`~kvlitmus.spec.prefetch_life`.

How a step is judged: :mod:`~kvlitmus.spec.setting` (what a run is about), :mod:`~kvlitmus.spec.seen` (what was seen of
the cache), :mod:`~kvlitmus.spec.step`, :mod:`~kvlitmus.spec.on` and :mod:`~kvlitmus.spec.occasions` (what kind of step it is;
:mod:`~kvlitmus.spec.tier_occasions` of calls on the tiers),
:mod:`~kvlitmus.spec.actions` (what a step of each kind may change, and why), :mod:`~kvlitmus.spec.explain` (which
of it was seen), by :mod:`~kvlitmus.spec.look` (what of a step the frame looks at) and :mod:`~kvlitmus.spec.reach` (what a
cause can reach), :mod:`~kvlitmus.spec.room` (how much room a call lacks),
:mod:`~kvlitmus.spec.facts` (what a fact is), :mod:`~kvlitmus.spec.observed`, :mod:`~kvlitmus.spec.order` and
:mod:`~kvlitmus.spec.store_facts` (facts of several parts), :mod:`~kvlitmus.spec.sparse_facts`, :mod:`~kvlitmus.spec.sparse_staging_facts`, :mod:`~kvlitmus.spec.sparse_admission_facts`, :mod:`~kvlitmus.spec.sparse_ratio_facts`, :mod:`~kvlitmus.spec.sparse_transfer_facts`, :mod:`~kvlitmus.spec.sparse_growth_facts`, :mod:`~kvlitmus.spec.component_facts`, :mod:`~kvlitmus.spec.component_fetch_facts`, :mod:`~kvlitmus.spec.component_host_facts`, :mod:`~kvlitmus.spec.component_policy_facts`, :mod:`~kvlitmus.spec.component_storing_facts`, :mod:`~kvlitmus.spec.component_order_facts`, :mod:`~kvlitmus.spec.component_request_facts`, :mod:`~kvlitmus.spec.rank_facts`, :mod:`~kvlitmus.spec.rank_change_facts`, :mod:`~kvlitmus.spec.prefetch_facts` (those of a plan), :mod:`~kvlitmus.spec.rule` (what a rule is),
:mod:`~kvlitmus.spec.lean` (states that a step replaces little of), :mod:`~kvlitmus.spec.plan` (the facts and rules of alike steps, as one function), :mod:`~kvlitmus.spec.inline` (which of
them are one expression in it), :mod:`~kvlitmus.spec.fingerprint` (what a rule does, as a few digits, whatever it is called) and
:mod:`~kvlitmus.spec.modules` (what a name in a module stands for), :mod:`~kvlitmus.spec.less` (which rules say with less to see what others say).

The rules: the parts, in the order of :mod:`~kvlitmus.spec.parts`.

This room imports nothing but the standard library and nothing from the other rooms.
"""
