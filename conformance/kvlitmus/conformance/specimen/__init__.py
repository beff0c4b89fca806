"""The specimen: an ordinary mutable cache, written the way engines write them.

Free lists, counters, leaf sets, a radix tree with nodes: state that is kept up to date by hand,
which is where the bugs of real caches live.  It is the default target of ``kvlitmus run``, and
the body into which mutants are put, as replacement parts (:class:`~.cache.Parts`), never by
patching.  It imports the spec alone; the reference knows nothing of it.
"""
