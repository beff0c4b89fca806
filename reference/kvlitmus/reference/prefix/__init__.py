"""One correct cache of prefixes, with host memory and storage or without."""
