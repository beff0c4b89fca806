"""Adapters to SGLang 0.5.13.post1."""
