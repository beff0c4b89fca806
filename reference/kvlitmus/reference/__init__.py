"""How one correct cache behaves: frozen values and pure transition functions.

A flat cache is :mod:`~kvlitmus.reference.perform`: for each call, what a correct cache chooses and
answers.  What the call then amounts to is said in :mod:`kvlitmus.spec.advance`, on the state of
:mod:`kvlitmus.spec.state`.

A hierarchy is a value of its own, :mod:`~kvlitmus.reference.hierarchy`, with the parts that it
names.  On its device it performs flat calls; :mod:`~kvlitmus.reference.pool` has the host's free
pages.

What is worth keeping, when pages are backed up and how long requests wait is decided in
:mod:`kvlitmus.spec.policies`.
Nothing here keeps time, draws lots, or talks to anybody.  Where a correct cache has a choice
(which free page, which of two equal victims), the function takes the choice as an argument:
left out, the reference decides; given, it is what an implementation was seen to do.
"""
