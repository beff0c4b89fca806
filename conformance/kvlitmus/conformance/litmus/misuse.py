"""Litmus tests."""
