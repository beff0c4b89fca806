"""Actions on a cache of prefixes."""
