"""Litmus tests of caches of components."""
