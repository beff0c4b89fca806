"""The specimen's cache of prefixes, with host memory and storage or without."""
