"""Tapes, judged: what a cache did in its own engine or in another run, without driving it.

Here are the rules' verdicts on what :mod:`kvlitmus.conformance.tape` reads; how that is written down is its affair.
For ``kvlitmus check`` somebody's engine ran, and a logger wrote one line for each call at the cache's boundary; the
checker that otherwise drives a cache is fed these lines.

* :mod:`~kvlitmus.conformance.history.reader` reads a tape (:mod:`kvlitmus.conformance.tape`) call by call;
* :mod:`~kvlitmus.conformance.history.arguments` knows which calls are judged, and the bounds on their arguments;
* :mod:`~kvlitmus.conformance.history.actions` and :mod:`~kvlitmus.conformance.history.families` play each of them on a
  checker, with what :mod:`~kvlitmus.conformance.history.state` knows of the engine so far;
* where not all is known, :mod:`~kvlitmus.conformance.history.unseen` and :mod:`~kvlitmus.conformance.history.certain`
  judge by what is certain;
* :mod:`~kvlitmus.conformance.history.playback` stands in for the cache: it answers what was recorded, and its
  checker goes on after a broken rule where that is wanted;
* :mod:`~kvlitmus.conformance.history.contract` says what the *engine* must not do;
* :mod:`~kvlitmus.conformance.history.checker` takes line after line and has it judged;
* :mod:`~kvlitmus.conformance.history.verdict` makes a report of it, in the form of every other run's.

What a run has recorded (``kvlitmus run --record``) is judged again by :mod:`~kvlitmus.conformance.history.again` when
rules have changed; :mod:`~kvlitmus.conformance.history.compare` lays two tapes side by side, and
:mod:`~kvlitmus.conformance.history.streams` judges KV events as engines publish them.
"""
