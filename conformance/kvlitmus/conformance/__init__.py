"""The judge: what runs a cache against the spec and explains what it finds.

Read :mod:`~kvlitmus.conformance.ports` first (what an adapter offers), then
:mod:`~kvlitmus.conformance.judge` (what happens around one call),
:mod:`~kvlitmus.conformance.schedule` and :mod:`~kvlitmus.conformance.engine` (how runs are made,
replayed and shrunk).  ``adapters/`` holds the targets, ``specimen/`` an ordinary mutable cache,
``mutants/`` the bugs that are put into it, ``litmus/`` the short programs part by part.
"""
