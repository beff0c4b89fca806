"""Sparse host memory: pages behind rows of single tokens, and the buffers that decode from them (SPARSE).

- :mod:`~kvlitmus.spec.sparse.calls`: the calls, as values.
- :mod:`~kvlitmus.spec.sparse.state`: what is known.
- :mod:`~kvlitmus.spec.sparse.buffer`: a row's buffer on the device, as a value.
- :mod:`~kvlitmus.spec.sparse.lift`: the host memory as the pool that it is, judged by POOL.
- :mod:`~kvlitmus.spec.sparse.rows`: rules of rows and pages.
- :mod:`~kvlitmus.spec.sparse.staging`: rules of staging.
- :mod:`~kvlitmus.spec.sparse.admission`: rules of admission and backups.
- :mod:`~kvlitmus.spec.sparse.ratio`: rules of compressed tokens.
- :mod:`~kvlitmus.spec.sparse.transfer`: rules of transfers from a peer.
- :mod:`~kvlitmus.spec.sparse.growth`: rules of the device's slots behind buffers.
- :mod:`~kvlitmus.spec.sparse.misuse`: what no call does to a buffer.
"""
