"""The specimen's cache of components."""
