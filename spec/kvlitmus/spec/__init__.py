"""What must hold of a KV cache: the vocabulary and the rules, part by part.

A **rule** is a typed, pure, total predicate over named **facts**; its docstring is the
normative sentence.  Start with :mod:`kvlitmus.spec.units` (the words), then
:mod:`kvlitmus.spec.interface` (what a cache may offer), :mod:`kvlitmus.spec.config` and
:mod:`kvlitmus.spec.profile` (what it is asked to be, and the legal choices that it declares),
:mod:`kvlitmus.spec.policies` (what a cache decides by), :mod:`kvlitmus.spec.job` and
:mod:`kvlitmus.spec.prefetch_life` (what goes on in the background),
:mod:`kvlitmus.spec.rule` (what a rule is), then the parts, in the order of
:mod:`kvlitmus.spec.parts`.

This room imports nothing but the standard library and nothing from the other rooms.
"""
