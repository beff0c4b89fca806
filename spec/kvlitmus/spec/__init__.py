"""What must hold of a KV cache: the vocabulary, what calls amount to, and the rules, part by part.

A **rule** is a typed, pure, total predicate over named **facts**; its docstring is the normative sentence.  In this order
it is best read; what the page *Implement a cache* (``docs/implement.md``) says of flat caches is rendered from here.

The words: :mod:`~kvlitmus.spec.words.units`, :mod:`~kvlitmus.spec.words.names` (of prefixes).

What is asked and answered: :mod:`~kvlitmus.spec.interface` (what a cache may offer), :mod:`~kvlitmus.spec.words.config` and
:mod:`~kvlitmus.spec.words.profile` (what it is asked to be, and the legal choices that it declares; refused by
:mod:`~kvlitmus.spec.words.choices` where they are none, in the words of :mod:`~kvlitmus.spec.words.text`),
:mod:`~kvlitmus.spec.words.policies` (what a cache decides by).

What is known, and how it changes: :mod:`~kvlitmus.spec.prefix.page` and :mod:`~kvlitmus.spec.prefix.state`, elementary
:mod:`~kvlitmus.spec.prefix.effects` on it, :mod:`~kvlitmus.spec.prefix.calls` as values, and :mod:`~kvlitmus.spec.prefix.advance`, which says
what an answered call amounts to; :mod:`~kvlitmus.spec.prefix.partial` and :mod:`~kvlitmus.spec.prefix.windows`, what remains known where
evictions aren't seen; :mod:`~kvlitmus.spec.prefix.tables`, block tables; :mod:`~kvlitmus.spec.prefix.release`, what is given back and not yet free; :mod:`~kvlitmus.spec.words.limits`, the keys that a cache
takes; :mod:`~kvlitmus.spec.prefix.replay`, what events tell, and :mod:`~kvlitmus.spec.prefix.late_events`, what they may tell late;
:mod:`~kvlitmus.spec.prefix.frame.trust`, what is not believed any more after a broken rule.  For tiers
:mod:`~kvlitmus.spec.prefix.tier_state`, :mod:`~kvlitmus.spec.prefix.host_state` (what only the cache itself knows),
:mod:`~kvlitmus.spec.prefix.tier_calls`, :mod:`~kvlitmus.spec.prefix.tier_advance`, :mod:`~kvlitmus.spec.prefix.storage_advance`,
:mod:`~kvlitmus.spec.prefix.prefetch_advance` and :mod:`~kvlitmus.spec.prefix.prefetch_plan`, without a snapshot
:mod:`~kvlitmus.spec.prefix.tier_unseen` and :mod:`~kvlitmus.spec.prefix.host_known`; for page stores
:mod:`~kvlitmus.spec.stores.state` and :mod:`~kvlitmus.spec.stores.calls`; for sparse host pools
:mod:`~kvlitmus.spec.sparse.state`, :mod:`~kvlitmus.spec.sparse.buffer` and :mod:`~kvlitmus.spec.sparse.calls`; for components
:mod:`~kvlitmus.spec.words.shapes` (which boundaries are valid), :mod:`~kvlitmus.spec.words.layouts`,
:mod:`~kvlitmus.spec.components.calls`, :mod:`~kvlitmus.spec.components.state`,
:mod:`~kvlitmus.spec.components.advance`, :mod:`~kvlitmus.spec.components.steps`,
:mod:`~kvlitmus.spec.components.evictions` (what may go), :mod:`~kvlitmus.spec.components.storage` (what can be restored) and
:mod:`~kvlitmus.spec.components.fetch` (how it is fetched), :mod:`~kvlitmus.spec.components.copies` (what is copied between
the tiers), :mod:`~kvlitmus.spec.components.replay` (what events tell), :mod:`~kvlitmus.spec.components.uses` (how long ago, and how
often, an entry was used); for several ranks
:mod:`~kvlitmus.spec.ranks.state` and :mod:`~kvlitmus.spec.ranks.calls`; beside these :mod:`~kvlitmus.spec.prefix.hash_calls`
and :mod:`~kvlitmus.spec.misuse.calls`, and :mod:`~kvlitmus.spec.words.schemes` (how pages are named).  What goes on in the
background has legal :mod:`~kvlitmus.spec.words.transitions`, in :mod:`~kvlitmus.spec.prefix.rules.job` and
:mod:`~kvlitmus.spec.words.prefetch_life`.

How a step is judged: :mod:`~kvlitmus.spec.words.setting` (what a run is about), :mod:`~kvlitmus.spec.prefix.seen` (what was seen of
the cache), :mod:`~kvlitmus.spec.law.step`, :mod:`~kvlitmus.spec.law.on` and :mod:`~kvlitmus.spec.law.occasions` (what kind of step it is;
:mod:`~kvlitmus.spec.prefix.tier_occasions` of calls on the tiers),
:mod:`~kvlitmus.spec.law.actions` (what a step of each kind may change, and why), :mod:`~kvlitmus.spec.prefix.frame.explain` (which
of it was seen), by :mod:`~kvlitmus.spec.prefix.frame.judged_step` (what of a step the frame looks at) and :mod:`~kvlitmus.spec.prefix.frame.job_scope` (what a
cause can reach), :mod:`~kvlitmus.spec.prefix.memory_needed` (how much room a call lacks),
:mod:`~kvlitmus.spec.law.facts` (what a fact is), :mod:`~kvlitmus.spec.prefix.rules.observed`, :mod:`~kvlitmus.spec.prefix.rules.order` and
:mod:`~kvlitmus.spec.stores.facts` (facts of several parts), :mod:`~kvlitmus.spec.sparse.row_facts`, :mod:`~kvlitmus.spec.sparse.staging_facts`, :mod:`~kvlitmus.spec.sparse.admission_facts`, :mod:`~kvlitmus.spec.sparse.ratio_facts`, :mod:`~kvlitmus.spec.sparse.transfer_facts`, :mod:`~kvlitmus.spec.sparse.growth_facts`, :mod:`~kvlitmus.spec.components.tree_facts`, :mod:`~kvlitmus.spec.components.fetch_facts`, :mod:`~kvlitmus.spec.components.host_facts`, :mod:`~kvlitmus.spec.components.policy_facts`, :mod:`~kvlitmus.spec.components.storing_facts`, :mod:`~kvlitmus.spec.components.order_facts`, :mod:`~kvlitmus.spec.components.request_facts`, :mod:`~kvlitmus.spec.ranks.facts`, :mod:`~kvlitmus.spec.ranks.change_facts`, :mod:`~kvlitmus.spec.prefix.rules.prefetch_facts` (those of a plan), :mod:`~kvlitmus.spec.law.rule` (what a rule is),
:mod:`~kvlitmus.spec.words.quick_replace` (states that a step replaces little of), :mod:`~kvlitmus.spec.law.plan` (the facts and rules of alike steps, as one function), :mod:`~kvlitmus.spec.law.inline` (which of
them are one expression in it), :mod:`~kvlitmus.spec.law.fingerprint` (what a rule does, as a few digits, whatever it is called) and
:mod:`~kvlitmus.spec.law.modules` (what a name in a module stands for), :mod:`~kvlitmus.spec.prefix.stand_ins` (which rules say with less to see what others say).

The rules: the parts, in the order of :mod:`~kvlitmus.spec.parts`.

This room imports nothing but the standard library and nothing from the other rooms.
"""
