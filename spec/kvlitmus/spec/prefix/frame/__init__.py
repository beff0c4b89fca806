"""The frame: what a step may change, and which cause explains each change that was seen.

- :mod:`~kvlitmus.spec.prefix.frame.rules`: the rules of the frame (FRAME).
- :mod:`~kvlitmus.spec.prefix.frame.explain`: what was seen to change, as effects with causes.
- :mod:`~kvlitmus.spec.prefix.frame.job_scope`: which jobs and names a call may let go on.
- :mod:`~kvlitmus.spec.prefix.frame.trust`: what is not believed any more after a broken rule.
"""
