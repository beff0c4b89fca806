"""Page stores, judged alone: what keeps pages outside the machine's memory (STORE).

- :mod:`~kvlitmus.spec.stores.calls`: the calls, as values.
- :mod:`~kvlitmus.spec.stores.state`: which values may be there.
- :mod:`~kvlitmus.spec.stores.rules`: the rules.
- :mod:`~kvlitmus.spec.stores.facts`: what can lie in an object's place.
"""
