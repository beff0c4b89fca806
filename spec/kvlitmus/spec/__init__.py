"""What must hold of a KV cache: what is asked and answered, what is known and how it changes, and the rules.

A **rule** is a typed, pure, total predicate over named **facts**; its docstring is the normative sentence.  Each folder is
about one thing, says at its beginning what is in each of its files, and imports only folders that stand above it here:

- :mod:`~kvlitmus.spec.words`: the words of all others: units, names of prefixes, what a cache is asked to be (its
  configuration) and the legal choices that it declares (its profile), policies.
- :mod:`~kvlitmus.spec.interface`: the calls that a cache may offer, what they are given, and what they answer.
- :mod:`~kvlitmus.spec.law`: what a rule, a fact, an occasion and an effect are, and how they become one plan.  It knows
  no cache; its own rules, PORT, hold for every call.
- :mod:`~kvlitmus.spec.prefix`: a cache of prefixes, with host memory and storage below the device or without: its calls,
  what is known of it, and what a call amounts to.  Its rules are in :mod:`~kvlitmus.spec.prefix.rules` (a file for
  pools, one for locks, one for evictions, and so on); what a step may change at all is in
  :mod:`~kvlitmus.spec.prefix.frame`; what holds where it keeps windows, chunks, recurrent states or index keys beside the
  KV, in :mod:`~kvlitmus.spec.prefix.components`.

The others stand on these, side by side, and know nothing of each other.  Each has its calls, its state, its facts and
its rules:

- :mod:`~kvlitmus.spec.ranks`: several ranks that must decide alike.
- :mod:`~kvlitmus.spec.sparse`: sparse host memory: pages behind rows of single tokens.
- :mod:`~kvlitmus.spec.stores`: page stores, judged alone.
- :mod:`~kvlitmus.spec.misuse`: calls that the contract forbids.

:mod:`~kvlitmus.spec.ledger` says of each call of all of them which rule answers which question, and what none does.
:mod:`~kvlitmus.spec.parts` lists the modules that have rules, in the order in which they are read, shown and blamed.
``kvlitmus rules ID`` says where a rule stands.  The other rooms have the same folders.

This room imports nothing but the standard library and nothing from the other rooms.
"""
