"""Calls that the contract forbids, and what a cache owes that says it rejects or ignores them (MISUSE).

- :mod:`~kvlitmus.spec.misuse.calls`: the calls, as values.
- :mod:`~kvlitmus.spec.misuse.rules`: the rules, with their facts.
"""
