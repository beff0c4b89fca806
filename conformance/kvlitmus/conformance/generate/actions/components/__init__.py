"""Actions on a cache of components."""
