"""Litmus tests of caches of prefixes."""
