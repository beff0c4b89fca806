"""A slip: a mutant of one replaceable part, as data, before it is put into a specimen."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Part = TypeVar("Part")


class Slip(NamedTuple, Generic[Part]):
    """One bug in one part.

    ``part`` takes the place of the specimen's part, its docstring is the recipe.  ``bugs`` are
    ids of known bugs, ``links`` where they were reported, ``kills`` the rules of which at least
    one must catch it.  A slip without ``kills`` is a legal variation.
    """

    id: str
    part: type[Part]
    bugs: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()
