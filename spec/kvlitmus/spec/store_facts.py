"""What the rules of a page store speak of: what can lie in an object's place, and the facts that are theirs alone."""

from __future__ import annotations

from kvlitmus.spec.facts import define

SHORT = ("short", "empty")
"""Damage that leaves an object with fewer bytes than it had."""
CORRUPT = ("flip", "other")
"""Damage that leaves all its bytes: one of them changed, or those of another object in its place."""
DAMAGES = (*SHORT, *CORRUPT)
STRANGE = ("long", "folder", "pipe", "link")
"""Something else in its place: far more bytes than it had, a container, a pipe, a link to another object."""
UNSEEN = (*CORRUPT, "link")
"""Damage of which a look at the length says nothing."""

define(
    0,
    {
        "store_counted": "how many leading keys the store says are there",
        "store_asked": "how many keys the call named",
        "store_answered": "how many positions the answer has",
        "store_there": "for each key: whether an object is there (None: it can't be known), before the call",
        "store_got": "for each key: the bytes that the store returned (None: a miss)",
        "store_puts": "for each key: the values put under it by this rank since nothing was there",
        "store_due": "for each key: the one value that the profile allows where several were put (None: several are allowed)",
        "store_damage": "for each key: how the suite damaged its object (empty: it did not)",
        "store_checks": "what the profile says a store looks at when it reads: all bytes, or the length alone",
        "store_mended": "for each key: what may be there by successful puts after the damage (empty: there were none)",
        "store_foreign": "for each key: the values that other ranks put under it",
        "store_accepted": "for each key: whether the put says that the value is stored",
        "store_ordinary": "for each key: whether it is a key that every store takes, with nothing in its way",
        "store_odd_got": "the same as store_got, for keys out of the ordinary and for what was put under such keys",
        "store_odd_puts": "for each of these: the values put under that very key",
        "store_odd_there": "for each of these: whether a put said that something is stored under that very key",
        "store_raised": "whether the call raised",
        "store_excused": "whether the call named a key that a store may refuse by raising",
        "store_leading": "how many leading keys the store said are there, just before they were read",
        "store_glimpses": "what was read under the key while, or after, a put did not get to its end",
        "store_wholes": "the values that were whole under the key: the one that was there, and the one being put",
        "store_filled": "for each key: whether the store says that it filled the buffer",
        "buffers_before": "the buffers that were passed, before the call",
        "buffers_after": "the buffers that were passed, after the call",
        "store_strays": "what lies beside the store's own place although only the store could have put it there",
        "store_left": "the keys that are there, or can be read, after everything was cleared",
    },
)
