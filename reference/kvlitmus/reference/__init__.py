"""How one correct cache behaves: frozen values and pure transition functions.

Read it top to bottom: :mod:`~kvlitmus.reference.pool` (who owns a page),
:mod:`~kvlitmus.reference.tree` (which prefixes are cached),
:mod:`~kvlitmus.reference.cache` (pool, tree and callers together) and
:mod:`~kvlitmus.reference.request` (the life of a request); then
:mod:`~kvlitmus.reference.hierarchy` and the parts that it names.  What is worth keeping, when pages
are backed up and how long requests wait is decided in :mod:`kvlitmus.spec.policies`.
Nothing here keeps time, draws lots, or talks to anybody.  Where a correct cache has a choice
(which free page, which of two equal victims), the function takes the choice as an argument:
left out, the reference decides; given, it is what an implementation was seen to do.
"""
