"""Tapes: what a cache was asked, what it answered, and what was seen of it, as JSON Lines that any language reads.

* :mod:`~kvlitmus.conformance.tape.forms` turns the values of one type into plain JSON and back, by the annotations of
  the ports;
* :mod:`~kvlitmus.conformance.tape.calls` has these forms for the arguments and the answer of every call;
* :mod:`~kvlitmus.conformance.tape.operands` names what a call gave, where a later call takes it;
* :mod:`~kvlitmus.conformance.tape.changes` writes what is looked at as changes;
* :mod:`~kvlitmus.conformance.tape.lines` reads and writes files, as streams;
* :mod:`~kvlitmus.conformance.tape.recorder` stands between the suite and a cache, and writes down what it sees;
* :mod:`~kvlitmus.conformance.tape.driver` makes the calls of a tape on another cache;
* :mod:`~kvlitmus.conformance.tape.schema` makes the JSON Schema, and ``docs/tape.md`` explains the form.
"""
