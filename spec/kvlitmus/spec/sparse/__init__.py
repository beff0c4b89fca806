"""Sparse host memory: pages behind rows of single tokens, and the buffers on the device that decode from them."""
