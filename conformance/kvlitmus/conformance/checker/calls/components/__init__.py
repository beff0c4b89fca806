"""Calls on a cache of components."""
