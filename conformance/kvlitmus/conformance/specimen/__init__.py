"""The specimen: an ordinary mutable cache, written the way engines write them.

Free lists, counters, leaf sets, a radix tree with nodes: state that is kept up to date by hand,
which is where the bugs of real caches live.  It is the default target of ``kvlitmus run``, and
the body into which mutants are put, as replacement parts (:class:`~.parts.Parts`), never by
patching.  It imports the spec alone; the reference knows nothing of it.

In reading order: ``pool``, ``tree``, ``requests`` and ``flat`` (which puts them behind the ports) make the flat cache;
``hashing`` and ``prefetch`` (the plan) are beside it.  With a host tier the tree is that of ``tiers`` (nodes on
either tier) over the pools and contents of ``host``; ``works`` is the table of what is under way, ``copies`` the
queue of copies, and ``backup``, ``loading``, ``fetching`` and ``putting`` are the four kinds of work; ``hierarchy``
puts them behind the ports.  ``store`` is a page store by itself, ``sparse`` a
sparse host pool; ``parts`` lists what may be replaced, and ``cache``
is the target.
"""
