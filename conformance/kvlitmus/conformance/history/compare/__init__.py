"""Is the second cache the first?  Two records of the same calls side by side, and by whose right they part.

* :mod:`~kvlitmus.conformance.history.compare.names` names what a cache numbers as it likes;
* :mod:`~kvlitmus.conformance.history.compare.likeness` lays two plays side by side, and says where they part;
* :mod:`~kvlitmus.conformance.history.compare.compared` says what the rules and the profiles say of that;
* :mod:`~kvlitmus.conformance.history.compare.driven` makes the calls of a tape on the second cache.
"""
