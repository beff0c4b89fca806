"""The words that all folders share.

- :mod:`~kvlitmus.spec.words.units`: slots, pages, tokens, keys, and the arithmetic of pages.
- :mod:`~kvlitmus.spec.words.names`: equal prefixes, equal names.
- :mod:`~kvlitmus.spec.words.config`: what a cache is asked to be.
- :mod:`~kvlitmus.spec.words.profile`: the legal choices that it declares.
- :mod:`~kvlitmus.spec.words.choices`: values that are refused when a configuration or a profile is made.
- :mod:`~kvlitmus.spec.words.text`: text from strangers, made harmless.
- :mod:`~kvlitmus.spec.words.policies`: what a cache decides by where the rules leave it to the configuration.
- :mod:`~kvlitmus.spec.words.limits`: the keys that a cache takes.
- :mod:`~kvlitmus.spec.words.setting`: what one run is about.
- :mod:`~kvlitmus.spec.words.shapes`: the kinds of state for a prefix, and at which boundaries each is valid.
- :mod:`~kvlitmus.spec.words.layouts`: which components a cache is asked to keep.
- :mod:`~kvlitmus.spec.words.schemes`: how pages are named in storage.
- :mod:`~kvlitmus.spec.words.transitions`: tables of states.
- :mod:`~kvlitmus.spec.words.prefetch_life`: the states of a prefetch.
- :mod:`~kvlitmus.spec.words.quick_replace`: named tuples of which a step replaces little.
"""
