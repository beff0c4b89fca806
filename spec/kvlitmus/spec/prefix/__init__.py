"""A cache of prefixes, with host memory and storage or without: its calls, what is known of it, and how that changes."""
