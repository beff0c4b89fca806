"""Mutants of the specimen's ranks."""
