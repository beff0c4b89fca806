"""The judge: what runs a cache against the spec and explains what it finds.

What is where, in the order in which it is best read:

**What a cache offers** — ``ports`` (the protocols an adapter implements, configuration, profile),
``tier_ports`` (those of a hierarchy: host tier, jobs, prefetches, storage), ``store_ports`` (those of a page
store judged alone), ``compose`` (requests made of smaller parts, where a cache has none), ``targets`` (caches by
name), ``adapters/`` (the reference, SGLang, page stores), ``specimen/`` (an ordinary mutable cache, the default
target), ``adapter_template`` and ``adapter_words`` (an adapter to fill in).

**Around one call** — ``guard`` (the call itself, and answers that may be anything), ``judge`` (before,
after, facts, rules), ``observation`` (from a snapshot to facts), ``unseen`` (what is known without one),
``selection`` (which rules apply), ``calls/`` (what a lawful caller does, part by part), ``explain``.

**Around one call of a hierarchy** — ``harness_store`` (the storage that the suite brings, and its record),
``tier_observation`` (both tiers and the jobs, from a snapshot), ``tier_books`` (what is in flight, what it
protects, what every slot holds), ``fetch_books`` (the life of each prefetch, and the names that storage was asked
for), ``event_books`` (what somebody knows who replays all events).  Beside them ``shelf`` (what may be in a page
store that is judged alone) and ``scripted_host`` (the memory that a prefetch plan is judged with).

**Runs** — ``schedule`` (operations, decoded from bytes), ``player`` (plays them), ``moves/`` (how each kind
is played, part by part), ``litmus/`` (short programs), ``plan`` (which runs make up a verdict), ``engine``
(plays one item), ``shrink``, ``results`` (what comes of it, as plain data), ``machine`` (the same calls as a
Hypothesis state machine).

**Processes** — ``supervisor`` and ``crew`` (items over worker processes), ``worker`` and ``process``, ``patience``
(which time counts as a hang), ``stage`` (what is being played, should the worker die), ``autopsy`` (why it died).

**What people see** — ``cli`` and ``commands/``, ``verdicts``, ``minimise`` (the shortest counterexample per
rule), ``baseline``, ``report/``, ``schema/``, ``pytest_plugin`` (one test per rule), ``trace/`` (traces of
production), ``recorded/`` (recorded calls, judged without driving anything), ``text``.

**Nights** — ``fuzz/`` (campaigns guided by what schedules reach), ``vectors/`` (findings that became part of
every run).

**Who judges the judge** — ``mutants/`` (known bugs put into the specimen) and ``mutants_run``.
"""
