"""Around one call: the call itself, what is seen before and after it, and what the spec says of the step.

State, effects, facts and rules are the spec's (:mod:`kvlitmus.spec.prefix.state`, :mod:`kvlitmus.spec.law.plan`).
"""
