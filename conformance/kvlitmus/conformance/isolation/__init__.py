"""Worker processes: one target in each, watched from outside, so that whatever a cache does costs one process."""
