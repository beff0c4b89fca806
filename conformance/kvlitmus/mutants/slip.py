"""A slip: a mutant of one replaceable part, as data, before it is put into a specimen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import PLAIN, mutant, null_mutant

Part = TypeVar("Part")


class Slip(NamedTuple, Generic[Part]):
    """One bug in one part.

    ``part`` takes the place of the specimen's part, its docstring is the recipe.  ``bugs`` are
    ids of known bugs, ``links`` where they were reported, ``kills`` the rules of which at least
    one must catch it.  A slip without ``kills`` is a legal variation.  ``scheme``: the scheme of page names
    that its profile declares.
    """

    id: str
    part: type[Part]
    bugs: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()
    scheme: str = PROFILE.hash_scheme


def register(slips: Iterable[Slip[Any]], variations: Iterable[Slip[Any]], *, slot: str) -> None:
    """Register slips as mutants and legal variations as null mutants of the part ``slot``.

    One configuration is enough: these parts get all their sizes with each call.
    """
    for slip in slips:
        mutant(
            slip.id,
            bugs=slip.bugs,
            links=slip.links,
            kills=slip.kills,
            slot=slot,
            profile=replace(PROFILE, hash_scheme=slip.scheme),
            configs=(PLAIN,),
        )(slip.part)
    for one in variations:
        profile = replace(PROFILE, hash_scheme=one.scheme)
        null_mutant(one.id, slot=slot, profile=profile, configs=(PLAIN,))(one.part)
