"""Litmus tests of sparse host memory."""
