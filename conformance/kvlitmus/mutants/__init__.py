"""Mutants: known bugs put back into the specimen, and legal variations that must raise no alarm.

A **mutant** (:class:`.mutant.Mutant`) says what goes wrong, which rules must kill it, and where the bug was reported;
it is the specimen put together with a part in which a historical bug lives again.  A **null mutant** does something
that a correct cache may do; an alarm on one is a false alarm.

One module per part, those of the hierarchy after those of the flat cache, in the order of
:data:`~.registry.MODULES`; each registers its mutants with :func:`~.registry.mutant` or
:func:`~.registry.null_mutant`.  ``hosted`` has what mutants of a hierarchy share; null mutants are in ``legal/``, and
beside the mutants of plan, hashes, puts and stores.

The mutants of other bodies (the optimized cache, the effects, the reference) are with their tests, and are the same
:class:`.mutant.Mutant`.
"""
