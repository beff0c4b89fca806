"""Mutants: known bugs put back into the specimen, and legal variations that must raise no alarm.

A **mutant** replaces parts of the specimen (:class:`~kvlitmus.conformance.specimen.parts.Parts`)
by subclasses in which a historical bug lives again; its docstring gives the bug's ids, the link,
the recipe, and the rules that must kill it.  A **null mutant** does something that a correct
cache may do; an alarm on one is a false alarm.

One module per part, those of the hierarchy after those of the flat cache, in the order of
:data:`~.registry.MODULES`; each registers its mutants with :func:`~.registry.mutant` or
:func:`~.registry.null_mutant`.  ``hosted`` has what mutants of a hierarchy share, ``slip`` how a slip is told as
data; null mutants are in ``legal/``, ``hashing``, ``prefetch`` and ``store``.
"""
