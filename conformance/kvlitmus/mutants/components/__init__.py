"""Mutants of the specimen's cache of components."""
