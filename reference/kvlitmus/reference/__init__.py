"""How one correct cache behaves: frozen values and pure transition functions.

All of it is :func:`kvlitmus.reference.prefix.perform.perform`: for each call, what a correct cache chooses
(:mod:`~kvlitmus.reference.prefix.choose`) and answers.  What the call then amounts to is said in
:mod:`kvlitmus.spec.prefix.advance`, on the state of :mod:`kvlitmus.spec.prefix.state`.  The parts of a hierarchy are
named in :mod:`~kvlitmus.reference.prefix.hierarchy`.

What is worth keeping, when pages are backed up and how long requests wait is decided in
:mod:`kvlitmus.spec.words.policies`.
Nothing here keeps time, draws lots, or talks to anybody.  Where a correct cache has a choice
(which free page, which of two equal victims), the function takes the choice as an argument:
left out, the reference decides; given, it is what an implementation was seen to do.

Some fields of a profile it doesn't follow.  It is no block table: under ``publish="at_alloc"`` it still waits for an
explicit call.  Its matches end with the last page that is cached, also where ``match_ends="node"`` lets them end
before.  Where a clock may be coarse or events may lag, its own clock is exact and its events are in time.
"""
