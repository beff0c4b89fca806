"""The law: what a rule, a fact and an occasion are, and how they become one plan; it knows no cache.

The rules of :mod:`~kvlitmus.spec.law.port` hold for every call of every port.
"""
