"""Adapters to vLLM."""
