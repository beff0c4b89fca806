"""The words that all folders share: units, names of prefixes, what a cache is asked to be, and what it declares."""
