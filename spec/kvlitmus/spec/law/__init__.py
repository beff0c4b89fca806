"""The law: what a rule is and when it is judged; nothing here knows a cache.

- :mod:`~kvlitmus.spec.law.rule`: what a rule is, and the register of rules.
- :mod:`~kvlitmus.spec.law.facts`: what a fact is, and the register of facts.
- :mod:`~kvlitmus.spec.law.on`: the occasions on which rules are judged.
- :mod:`~kvlitmus.spec.law.occasions`: how a call says which occasions it is.
- :mod:`~kvlitmus.spec.law.actions`: which effects each occasion may have, for which cause.
- :mod:`~kvlitmus.spec.law.step`: a call, its answer, before and after.
- :mod:`~kvlitmus.spec.law.lifted`: such a step that is one of a plainer cache as well.
- :mod:`~kvlitmus.spec.law.plan`: the facts and rules of alike steps, as one function.
- :mod:`~kvlitmus.spec.law.inline`: which of them are one expression in it.
- :mod:`~kvlitmus.spec.law.port`: the rules of every call (PORT).
- :mod:`~kvlitmus.spec.law.fingerprint`: digests of what decides, without words and names.
- :mod:`~kvlitmus.spec.law.modules`: the sources that are digested.
"""
