"""The judge: what runs a cache against the spec and explains what it finds.

What is where, in the order in which it is best read:

**What a cache offers** — ``ports`` (the protocols an adapter implements, configuration, profile),
``compose`` (requests made of smaller parts, where a cache has none), ``targets`` (caches by name),
``adapters/`` (the reference, SGLang), ``specimen/`` (an ordinary mutable cache, the default target).

**Around one call** — ``guard`` (the call itself, and answers that may be anything), ``judge`` (before,
after, facts, rules), ``observation`` (from a snapshot to facts), ``unseen`` (what is known without one),
``selection`` (which rules apply), ``calls/`` (what a lawful caller does, part by part), ``explain``.

**Runs** — ``schedule`` (operations, decoded from bytes), ``player`` (plays them), ``litmus/`` (short
programs), ``plan`` (which runs make up a verdict), ``engine`` (plays one item), ``shrink``, ``results``
(what comes of it, as plain data), ``machine`` (the same calls as a Hypothesis state machine).

**Processes** — ``supervisor`` and ``crew`` (items over worker processes), ``worker`` and ``process``,
``stage`` (what is being played, should the worker die), ``autopsy`` (why it died).

**What people see** — ``cli`` and ``commands/``, ``verdicts``, ``minimise`` (the shortest counterexample per
rule), ``baseline``, ``report/``, ``schema/``, ``trace/`` (traces of production),
``recorded/`` (recorded calls, judged without driving anything), ``text``.

**Nights** — ``fuzz/`` (campaigns guided by what schedules reach), ``vectors/`` (findings that became part of
every run).

**Who judges the judge** — ``mutants/`` (known bugs put into the specimen) and ``mutants_run``.
"""
