"""Plays to look at: a tape becomes one HTML page that needs nothing else, neither a network nor a server.

* :mod:`~kvlitmus.conformance.viewer.scenes` turns the steps of a play into **scenes**: what is drawn after each, in
  words that say nothing of the kind of cache (pools of squares, tables, jobs);
* one module for each kind of cache knows what is drawn of it: :mod:`~.prefix` (flat caches and hierarchies),
  :mod:`~.components`, :mod:`~.ranks`, :mod:`~.sparse`, :mod:`~.stores`; :mod:`~.holders` knows who holds the pages that
  a cache has handed out, which no snapshot tells;
* :mod:`~kvlitmus.conformance.viewer.page` writes the page, as a stream: scenes are packed in parts, and the script
  (``page.js``) unpacks the one that it draws.

Whatever a tape says, it is drawn or left out: a cache that answers nonsense is what these pages are looked at for.
"""
