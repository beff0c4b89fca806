"""The optimized cache as a target: flat, and as a hierarchy."""
