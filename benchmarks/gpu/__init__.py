"""The optimized cache on a GPU: stages in processes with limits, what they find, and how it is told."""
