"""Mutants of the specimen's sparse host memory."""
