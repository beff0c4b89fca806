"""Mutants of host memory of components, and legal variations of it."""
