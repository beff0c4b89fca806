"""Mutants of the specimen's cache of prefixes."""
