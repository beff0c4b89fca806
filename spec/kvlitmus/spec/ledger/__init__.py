"""The ledger: for each call of each kind of cache, which rule answers which question, and what nobody says.

- :mod:`~kvlitmus.spec.ledger.cells`: rows, columns, cells.
- :mod:`~kvlitmus.spec.ledger.prefix`, :mod:`~kvlitmus.spec.ledger.pools`, :mod:`~kvlitmus.spec.ledger.components`,
  :mod:`~kvlitmus.spec.ledger.ranks`: the rows.
- :mod:`~kvlitmus.spec.ledger.read`: the ledger whole, and what follows from it.
"""
