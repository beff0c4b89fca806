"""The fast cache: device and host pools, radix tree, tiers and storage, on CPU tensors or on CUDA.

On CUDA it has run on one kind of GPU (``docs/gpu.md``).

What stands here imports :mod:`kvlitmus.spec` and never :mod:`kvlitmus.reference`; to the suite it is one more target,
met through an adapter like everybody else's cache.  The parts have the names that they have in the other rooms.

Control plane (numpy; numba, but for a flat cache on the compiled core): who decides which page is where, who may touch
it and when.

- ``pool``, ``levels``, ``branch``, ``paths``, ``residency``, ``tree``, ``policy``, ``evict``: pages, and the tree that
  maps prefixes to them, from the ground up; ``kernels`` and ``sha`` have the compiled loops.
- ``native/``, ``compiled``: pool, tree and victims a second time, in C++, with tiers too; ``cores`` says which of both
  a cache has, ``slots`` and ``arrays`` are what they share, ``opened`` makes a Python tree of a compiled one.
- ``lent``: a flat cache over pages that an engine's own allocator hands out.
- ``sglang``: the tree of SGLang's own cache, registered with SGLang; it imports SGLang only when that is asked for.
- ``sparse``: rows of tokens over host pages and their buffers on the device, in C++ alone.
- ``components``: several kinds of state for one prefix, on device and host, in C++ alone.
- ``request``, ``hashing``, ``cache``: a flat cache, for engines without tiers; ``calls``: what an exception in the
  middle of a call leaves.
- ``host``, ``backup``, ``load``, ``put``, ``prefetch``, ``fetch``, ``event``: the state machines of the tiers; ``work``
  is what is under way, ``mover`` and ``runner`` who does it.
- ``life``, ``hierarchy``: all of it together.  ``view`` and ``audit`` look at a tree and count everything again;
  ``counters`` is what a cache has done, and ``prometheus`` publishes it.
- ``ranks``: a hierarchy on one rank of several, which decide alike.  ``agreement`` is the vector that they reduce,
  ``ranked_fetch`` how prefetches end, ``share`` how much memory each has, ``steady`` a mover that refuses nothing.

Data plane (torch, Triton): :mod:`kvlitmus.optimized.data`, tensors on both tiers and the copies between them.
:mod:`kvlitmus.optimized.storage` keeps pages outside of memory, and needs the standard library alone.

Not here yet: components with write-back or storage, or on several ranks, where a component would be one more number of
each prefetch in the vector of a rank.
"""
