"""Branches: what the tree is made of.

A **branch** is a run of pages that follow one another in some prompt, kept in contiguous arrays.  It grows at its tip,
shrinks at its tip, and is never split: another branch may hang off the middle of it.  So a conversation of thousands
of turns is one branch, and what is done along its path costs per branch, not per page and not per turn.

Positions in a branch are local, in pages, ``0 .. n``.  A **place** is a position of some branch: the prefix that ends
there.  It stays what it is for as long as its last page is cached.  A **run** is a range of pages of one branch.

Rules of upkeep, for a branch ``b`` with parent ``p``:

- ``b.units`` holds ``n * page_size`` units, ``b.dev_pages[:dev]`` the device pages of those pages that are **resident**;
  pages ``dev .. n-1`` are on the host alone.  ``b.host_pages`` (where there is a host tier, and a page of the branch
  ever had a copy) is -1 for pages without a host copy.
- ``b`` hangs off ``p`` at ``b.at``: ``0 < b.at <= p.n`` (or ``p`` is the root of a namespace, which has no pages, and
  ``b.at`` is 0), and if ``b`` has resident pages then ``b.at <= p.dev``.
- ``p.children`` has ``b`` under ``(b.at, the bytes of its first page)``, so a page is looked up by its very tokens.
- The nodes that a radix tree would have are kept as positions: ``b.nodes`` (see :mod:`kvlitmus.optimized.levels`)
  begins a node at 0, where a match or an insert ended, where another branch hangs, and where residency changed.
- ``p.all_at[x]`` counts the branches that hang at ``x``, ``p.resident_at[x]`` those of them with resident pages.
- ``b.locks`` is ``None`` or a sorted list with ``2 * end + 1`` for each lock of a place ``end`` of ``b``, and
  ``2 * child.at`` for each branch below it that has locks.  Pages before the largest end are protected.
- A branch without pages has been taken out of the tree; nothing refers to it but places that are gone.
"""

from __future__ import annotations
