"""What must hold of a KV cache: the vocabulary and the rules, part by part.

A **rule** is a typed, pure, total predicate over named **facts**; its docstring is the
normative sentence.  Start with :mod:`kvlitmus.spec.units` (the words), then
:mod:`kvlitmus.spec.rule` (what a rule is), then the parts: ``pool``, ``tree``, ``lock``,
``evict``, ``request``, ``hashing``, ``prefetch``, ``port``.

This room imports nothing but the standard library and nothing from the other rooms.
"""
