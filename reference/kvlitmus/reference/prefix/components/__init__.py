"""One correct cache of components."""
