"""Tapes: what a cache was asked, what it answered, and what was seen of it, as JSON Lines that any language reads.

Here is the form: how it is written and read, played as the cache that it is of, and made on another one.  Nothing here
judges; what is on a tape is judged by :mod:`kvlitmus.conformance.history`.

* :mod:`~kvlitmus.conformance.tape.forms` turns the values of one type into plain JSON and back, by the annotations of
  the ports (:mod:`~kvlitmus.conformance.tape.compiled`: many of them at once);
* :mod:`~kvlitmus.conformance.tape.written` says what stands around values;
* :mod:`~kvlitmus.conformance.tape.calls` has these forms for the arguments and the answer of every call;
* :mod:`~kvlitmus.conformance.tape.operands` names what a call gave, where a later call takes it;
* :mod:`~kvlitmus.conformance.tape.changes` writes what is looked at as changes;
* :mod:`~kvlitmus.conformance.tape.lines` reads and writes files, as streams;
* :mod:`~kvlitmus.conformance.tape.recorder` stands between the suite and a cache, and writes down what it sees;
* :mod:`~kvlitmus.conformance.tape.played` stands in the place of that cache, and gives the answers again
  (:mod:`~kvlitmus.conformance.tape.answers`);
* :mod:`~kvlitmus.conformance.tape.driver` makes the calls of a tape on another cache;
* :mod:`~kvlitmus.conformance.tape.schema` makes the JSON Schema, and ``docs/tape.md`` explains the form.
"""
