"""Trace replay: how much of a recorded workload a cache would have found.

A trace lists the requests that a service received, each with the ids of its prompt's blocks.
``python -m benchmarks.trace`` sends them through a target, one after the other, by the same ports as
``kvlitmus run``, and counts what was found and what was evicted.  Nothing is judged here, but
nothing is believed either: a hit on a slot into which another block was computed, an eviction that
freed something else than it says, or an allocation that repeats a slot end the replay.

* :mod:`~benchmarks.trace.mooncake` reads and checks the file;
* :mod:`~benchmarks.trace.replay` plays one request after the other;
* :mod:`~benchmarks.trace.command` is the command.

What the figures mean
---------------------

One block is one token with pages of one token, so a capacity counts blocks.  A request with ``m``
blocks found has ``m`` hit blocks and ``min(512 m, input_length)`` hit tokens.  With ``full-leaf``
only full blocks take part, as in engines that cache whole pages; with ``all-leaf`` the partly
filled last block does too.

A request uses all its blocks at the same moment and a leaf always goes before its parent, so the
least recently used leaf is unique and there is one right number for each cell: every cache that
matches the longest prefix, uses blocks when they are matched and inserted, and evicts the least
recently used leaf block by block, exactly as many as are missing, gives the same figures.  On
Mooncake's conversation trace they are also those of an LRU stack in which each request's blocks
are touched from the last to the first.

Where figures differ, and why
-----------------------------

A cache may make other legal choices; the command names those that its profile declares.  SGLang's
``RadixCache`` (0.5.13.post1) differs in two:

* It evicts whole nodes.  A node is a run of blocks that no request has parted yet; when one block is
  missing, the whole run goes.
* When a match ends inside a node, the node is used before it is split, so the lower half, which the
  request did not ask for, counts as used too.

No third one shows: the specimen with just these two choices gives SGLang's figures to the last digit,
for both variants and at all six default capacities (conversation trace, ``full-leaf``: 33,660 hit
blocks at 5,000 and 94,866 at 30,000, where block by block it is 34,193 and 95,337; whole nodes alone
give 33,812 and 95,308).  0.5.23's ``UnifiedRadixCache`` gives the same figures as ``RadixCache``.
Where nothing is evicted the choices don't matter, and all targets agree.

Caches without a prefix tree, locks or an explicit eviction can't be replayed: the sequence match,
lock, evict, allocate, insert, unlock is what makes the figures comparable.
"""
