"""Several ranks that hold shards of the same pages and must decide alike (RANKS).

- :mod:`~kvlitmus.spec.ranks.calls`: the calls, as values.
- :mod:`~kvlitmus.spec.ranks.state`: what each has by itself, and what they have agreed on.
- :mod:`~kvlitmus.spec.ranks.one_rank`: one rank at one moment, as a plain cache.
- :mod:`~kvlitmus.spec.ranks.rules`: the rules.
- :mod:`~kvlitmus.spec.ranks.lift`: each rank as a plain cache, judged by the laws of one.
- :mod:`~kvlitmus.spec.ranks.facts`: what each did in a call, what was due, and how each looks afterwards.
- :mod:`~kvlitmus.spec.ranks.change_facts`: what came and what went by a call.
"""
