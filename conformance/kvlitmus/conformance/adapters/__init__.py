"""Adapters to caches that were not written for this suite, one module each.

Each module is a target in the sense of :mod:`kvlitmus.conformance.ports`, or holds several.  What
they drive is imported lazily, so that every adapter can be looked at without it.
"""
