"""Prompts that spell what a scheme hashes: derived from the schemes that are known, and tried on all caches.

A page's name is the digest of a message.  Whoever can choose tokens so that the message of their own page is that of
somebody's seed, or of somebody's page, has a page with that name, and continues that chain.  What may be chosen are
tokens, 4 bytes each, after what the scheme puts in front; so from any message one can tell which prompt would spell it,
if any does.  Where nothing is in front there always is one, as long as the lengths agree.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from kvlitmus.spec.words.schemes import SCHEMES, Domain, Scheme, sha256
from kvlitmus.spec.words.units import Key

PAGES = (9, 12, 16, 32, 64)
"""Page sizes that are tried: below 9 tokens nothing is as short as a seed's message."""

LONGEST_NAME = 400
"""A tenant's name has at most so many bytes."""

TOKENS = tuple(range(1001, 1001 + 2 * PAGES[-1]))
"""What the victim asks: anything."""


class Spelt(NamedTuple):
    """A victim's key and a prompt that is to have pages with the victim's names, each with its page size."""

    victim: Key
    victim_page: int
    prompt: Key
    page: int


def fronts(scheme: Scheme, domain: Domain) -> tuple[bytes, ...]:
    """What may stand before the tokens of a first page: what this scheme puts there, or nothing."""
    return tuple(dict.fromkeys((scheme.page_message(scheme.seed(domain), ()), b"")))


def prompt(message: bytes, front: bytes, domain: Domain) -> tuple[int, ...] | None:
    """The tokens of one page whose message is this one; ``None`` where there are none.

    A bigram's second token is the first one of the next, so hardly any message is spelt by bigrams.
    """
    text = message.removeprefix(front)
    width = (8 if domain.bigram else 4) * domain.page_size
    if not message.startswith(front) or len(text) != width:
        return None
    words = [int.from_bytes(text[at : at + 4], "little") for at in range(0, width, 4)]
    if not domain.bigram:
        return tuple(words)
    return (*words[::2], words[-1]) if words[1:-1:2] == words[2::2] else None


def seeds(scheme: Scheme, page_size: int, *, bigram: bool = False) -> Iterator[Spelt]:
    """Prompts that spell the seed of a tenant, with its tag or without: the tenant's name is as long as it must be."""
    domain = Domain(page_size, bigram)
    before = fronts(scheme, domain)
    for length in range(1, LONGEST_NAME + 1):
        name = "v" * length
        message = scheme.seed_message(domain._replace(namespace=name))
        victim = Key(name, TOKENS[: 2 * page_size + bigram], bigram)
        for front in before:
            for text in dict.fromkeys((message, message[len(scheme.page_tag) :])):
                spelt = prompt(text, front, domain)
                if spelt is not None:
                    yield Spelt(victim, page_size, Key(None, spelt + victim.tokens[bigram:], bigram), page_size)


@functools.cache
def within() -> tuple[Spelt, ...]:
    """A prompt of the default namespace and a tenant's key, for one page size: the prompt spells the tenant's seed."""
    found = [one for scheme in SCHEMES.values() for page_size in PAGES for one in seeds(scheme, page_size)]
    return tuple(sorted(found, key=lambda one: len(one.prompt.tokens)))


@functools.cache
def across() -> tuple[Spelt, ...]:
    """A prompt whose page is as long as a victim's smaller page and what precedes it, and spells both."""
    found = []
    for scheme in SCHEMES.values():
        for page_size in (1, 2, 8):
            victim = Key(None, TOKENS[: 2 * page_size])
            first = scheme.page_message(scheme.seed(Domain(page_size)), victim.units[:page_size])
            second = scheme.page_message(sha256(first), victim.units[page_size:])
            for message in (first, second):
                for page in range(1, len(message) // 4 + 1):
                    for front in fronts(scheme, Domain(page)):
                        spelt = prompt(message, front, Domain(page))
                        if spelt is not None and page != page_size:
                            found.append(Spelt(victim, page_size, Key(None, spelt), page))
    return tuple(found)
