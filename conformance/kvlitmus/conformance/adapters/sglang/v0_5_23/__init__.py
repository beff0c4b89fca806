"""Adapters to SGLang 0.5.23."""
