"""Litmus tests: short programs whose allowed outcomes the spec decides.

A litmus test is a function of a :class:`~kvlitmus.conformance.checker.checker.Checker`.  It makes a few calls
(:mod:`kvlitmus.conformance.checker.calls`) that lead straight to the situation in which a rule bites;
whether what the cache answers is allowed is judged by the rules themselves, all of them, after
every call.  So a litmus test asserts nothing: it *names the rules it is about*, and a run in which
one of them was never evaluated counts as not exercised.

One module per part of the spec.  ``keys`` makes keys of whole pages and a tail, ``scenes`` makes situations of a
hierarchy (computed, backed up, stored, gone from above); ``hashing_table`` and ``prefetch_table`` are tables of cases.
"""
