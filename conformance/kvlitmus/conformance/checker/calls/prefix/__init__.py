"""Calls on a cache of prefixes."""
