"""Adversaries: caches that are wrong in one cell of the ledger, made from it and not by hand.

- :mod:`~kvlitmus.mutants.adversaries.meddler`: what stands before a correct cache and meddles with one of its calls.
- :mod:`~kvlitmus.mutants.adversaries.acts`: in which ways: refuse, take less, take more, be late.
- :mod:`~kvlitmus.mutants.adversaries.foreign`: what else happens in a call, and victims in reverse.
- :mod:`~kvlitmus.mutants.adversaries.made`: which adversaries each row of the ledger has.
- :mod:`~kvlitmus.mutants.adversaries.score`: which of them are noticed, at which depth, by the rules of their cell.

They are no mutants: nobody reported them, and which rules must notice one, its cell says.
"""
