"""Litmus tests on host memory of components: backups, loads back, copies under way, evictions."""
