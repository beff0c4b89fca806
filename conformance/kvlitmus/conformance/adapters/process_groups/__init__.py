"""Ranks in processes of their own, which reduce over real process groups."""
