"""The conformance suite: what runs a cache against the spec and explains what it finds.

One package per role, in the order in which they are best read; each builds on those before it:

``ports/``: what a cache offers: the protocols that an adapter implements (those of ``kvlitmus.spec.interface``),
configuration and profile, requests composed of smaller parts (``compose``), and an adapter to fill in (``template``).

``checker/``: around one call. ``guard`` makes the call, whose answer may be anything; ``checker`` looks before and
after, and has the step judged by the spec, which holds the state, its facts and the rules; ``observation`` and
``tier_observation`` turn snapshots into what the spec calls *seen*, ``judge`` evaluates the rules that apply,
``explain`` words what was broken; ``calls/`` does what a lawful caller does, part by part.  ``harness_store`` is the
storage that the suite brings, ``scripted_host`` the host memory of prefetch plans.

``litmus/``: short programs.  ``specimen/``: an ordinary mutable cache, the default target.  ``adapters/``: the
reference, the optimized cache, page stores, SGLang.

``generate/``: ``schedule`` (operations, decoded from bytes), ``interpreter`` and ``actions/`` (which play them),
``shrink``, ``machine`` (the same calls as a Hypothesis state machine).

``run/``: ``plan`` (which runs make up a verdict), ``engine`` (plays one item), ``results``, ``verdicts``,
``minimise`` (the shortest counterexample per rule), ``failures`` (a counterexample in a file), ``baseline``,
``targets`` (caches by name), ``moved`` (where the modules of version 0.1 are).

``isolation/``: ``supervisor`` and ``worker_pool`` (items over worker processes), ``worker`` and ``process``,
``watchdog`` (which time counts as a hang), ``current_run`` (what is being played, should the worker die),
``crash_triage`` (why it died), ``integrity`` (whether a cache has changed the suite).

Beside them: ``report/`` and ``schema/`` (what people and programs read), ``tape/`` (the form of a recorded play:
written, read, played again), ``history/`` (tapes judged, one by one or two side by side), ``beside/`` (the reference
beside a recorded cache), ``viewer/`` (a tape as a page), ``fuzz/`` (campaigns guided by what schedules reach),
``shards/`` (runs on many machines), ``vectors/`` (findings that became part of every run), ``cli/`` (the command),
``pytest_plugin/`` (one test per rule), ``support/`` (text, files).

The bugs that the suite is tested with are in ``kvlitmus.mutants``, apart from what users import.
"""
