"""Caches that keep several kinds of state for a prefix: windows, chunks, recurrent states and index keys beside the KV."""
