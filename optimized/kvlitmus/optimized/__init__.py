"""The fast cache: device and host pools, radix tree and tiers on CUDA, or on CPU tensors.

``storage`` keeps pages outside of memory; the rest is not built yet.  What stands here imports
:mod:`kvlitmus.spec` and never :mod:`kvlitmus.reference`; to the suite it is one more target, met through
an adapter like everybody else's cache.
"""
