"""The reference beside a cache, step by step: what a correct cache would have answered there, and what it would have.

Nothing is played on the cache again: a tape says what was asked, what it answered, and what was seen of it.  Flat
caches and hierarchies are followed (:mod:`~kvlitmus.conformance.beside.follower`): the reference makes the choices that
the cache was seen to make, so that what differs is no choice.  All others are driven at their ports
(:mod:`~kvlitmus.conformance.beside.driven`): the reference gets the same calls, as long as it is where the cache is.

:mod:`~kvlitmus.conformance.beside.moments` has both in one form, and writes the answers on a tape.
:mod:`~kvlitmus.conformance.beside.facts` says what each of the two shows, in words that can be compared.
"""
