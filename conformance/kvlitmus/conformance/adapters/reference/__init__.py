"""The reference as a target: flat, as a hierarchy, and its page store."""
