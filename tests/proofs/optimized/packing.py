"""Packing: the bytes under which tokens are compared and hashed are those that the spec names, or it is refused."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import z3

from kvlitmus.spec.words.schemes import KVLITMUS_2, TOKEN_LIMIT, Domain, sha256
from kvlitmus.spec.words.units import Key
from tests.proofs.optimized.claims import proof
from tests.proofs.support.search import Run, alike, every
from tests.proofs.support.source import Slip, Source
from tests.proofs.support.vectors import Numpy, Scalar, Vector, named, width

HASHING = "kvlitmus.optimized.hashing"
SHA = "kvlitmus.optimized.sha"
TYPES = ("int32", "int64", "uint32", "uint64")
CASES = tuple(product(TYPES, (1, 2, 3)))


def tokens_of(run: Run, case: tuple[str, int]) -> Vector:
    """So many tokens of this type."""
    kind, count = named(case[0]), case[1]
    return Vector(run, kind, [run.bits(f"token{one}", width(kind)).formula for one in range(count)])


def known(tokens: Vector) -> list[Any]:
    """The lower half of each token: all of it, where it fits."""
    return [z3.Extract(31, 0, one) for one in tokens.bits]


def little(half: Any) -> list[Any]:
    """The four bytes of a token, the lowest first (:func:`kvlitmus.spec.words.schemes.encode`)."""
    return [z3.Extract(at + 7, at, half) for at in range(0, 32, 8)]


def fit(tokens: Vector) -> Any:
    """Whether each is at least 0 and below the limit."""
    return every([Scalar(tokens.run, tokens.kind, one).within(0, TOKEN_LIMIT) for one in tokens.bits])


def kept(made: list[Any] | None, tokens: Vector, expected: list[Any]) -> object:
    """Whether the right numbers were made of tokens that all fit, and nothing where one doesn't."""
    if made is None:
        return alike(fit(tokens), False)
    if [one.size() for one in made] != [one.size() for one in expected]:
        return False
    return every([fit(tokens), *[a == b for a, b in zip(made, expected, strict=True)]])


def tried(make: Any) -> Any:
    """What is made; ``None`` where it is refused."""
    try:
        return make()
    except ValueError:
        return None


@proof(
    "HASH-08",
    bounds="every token of each type of 32 and 64 bits; keys of at most three tokens",
    slips=[
        Slip(HASHING, "<< np.uint64(32)", "<< np.uint64(16)"),
        Slip(HASHING, "_in_range(tokens).astype(np.uint64)", "tokens.astype(np.uint64)"),
        Slip(HASHING, "bits >= TOKEN_LIMIT:", "bits > TOKEN_LIMIT:"),
        Slip(HASHING, "bits < 0 or ", ""),
    ],
    cases=CASES,
)
def bigrams_are_packed_without_loss(source: Source, run: Run, case: tuple[str, int]) -> object:
    """The first token fills the upper half of each and the second the lower, so unlike bigrams stay unlike."""
    tokens = tokens_of(run, case)
    hashing = source.module(HASHING, np=Numpy(run))
    made = tried(lambda: hashing.pack_bigrams(tokens).bits)
    numbers = known(tokens)
    expected = [z3.Concat(first, second) for first, second in pairwise(numbers)]
    return kept(made, tokens, expected)


@proof(
    "HASH-01",
    "HASH-08",
    bounds="every token of each type of 32 and 64 bits; keys of at most three tokens",
    slips=[
        Slip(HASHING, '_in_range(units).astype("<u4", copy=False)', 'units.astype("<u4", copy=False)'),
        Slip(HASHING, '_in_range(units).astype("<u4", copy=False)', '_in_range(units).astype("<u8", copy=False)'),
    ],
    cases=CASES,
)
def tokens_are_hashed_as_four_bytes_each(source: Source, run: Run, case: tuple[str, int]) -> object:
    """The lowest byte first; a token that does not fit is refused."""
    tokens = tokens_of(run, case)
    hashing = source.module(HASHING, np=Numpy(run))
    made = tried(lambda: hashing.encode(tokens, bigram=False).copy())
    return kept(made, tokens, [byte for one in known(tokens) for byte in little(one)])


@proof(
    "HASH-01",
    "HASH-08",
    bounds="every token of each type of 32 and 64 bits; keys of at most three tokens",
    slips=[
        Slip(HASHING, "[:, ::-1]", "[:, ::1]"),
        Slip(HASHING, "wide[:-1] << np.uint64(32)) | wide[1:]", "wide[1:] << np.uint64(32)) | wide[:-1]"),
    ],
    cases=CASES,
)
def bigrams_are_hashed_as_both_their_tokens(source: Source, run: Run, case: tuple[str, int]) -> object:
    """Of each packed bigram the first token, and then the second."""
    tokens = tokens_of(run, case)
    hashing = source.module(HASHING, np=Numpy(run))
    made = tried(lambda: hashing.encode(hashing.pack_bigrams(tokens), bigram=True).copy())
    numbers = known(tokens)
    pairs = [token for pair in pairwise(numbers) for token in pair]
    return kept(made, tokens, [byte for one in pairs for byte in little(one)])


NAMESPACES = (None, "", "tenant")
LENGTHS = range(9)


@proof(
    "HASH-02",
    "HASH-03",
    "HASH-04",
    "HASH-05",
    "HASH-06",
    "HASH-07",
    "HASH-09",
    "HASH-10",
    bounds="keys of at most eight units, cut at each page; pages of one to four units; three namespaces; unlike tokens",
    slips=[
        Slip(HASHING, "whole = len(units) - len(units) % page_size", "whole = len(units)"),
        Slip(HASHING, "before = raw(prior) if prior else seed(", "before = seed("),
        Slip(HASHING, "page_size * (8 if bigram else 4), before, PAGE_TAG", "page_size * 4, before, PAGE_TAG"),
        Slip(HASHING, "Domain(page_size, bigram, namespace)", "Domain(page_size, False, namespace)"),
        Slip(SHA, "sha256(tag + before + data[at : at + width])", "sha256(before + data[at : at + width])"),
        Slip(SHA, "digests.append(before)", "digests.append(before[::-1])"),
    ],
    cases=tuple(product((1, 2, 3, 4), (False, True), NAMESPACES)),
)
def names_are_chained_as_the_scheme_says(source: Source, run: Run, case: tuple[int, bool, str | None]) -> object:
    """The name of each whole page is the digest of the spec's message for it, however a key is cut into calls.

    Nothing looks at the value of a token on the way, so tokens are numbers that are all unlike here.
    """
    size, bigram, namespace = case
    sha = source.module(SHA)
    hashing = source.module(HASHING, {"digests": sha.plain})
    for length in LENGTHS:
        tokens = np.arange(7, 7 + length + bigram, dtype=np.int64)
        units = hashing.pack_bigrams(tokens) if bigram else tokens
        spoken = Key(namespace, tuple(tokens.tolist()), bigram).units
        before, expected = KVLITMUS_2.seed(Domain(size, bigram, namespace)), []
        for at in range(0, length - length % size, size):
            before = sha256(KVLITMUS_2.page_message(before, spoken[at : at + size]))
            expected.append(before.hex())
        for cut in range(len(expected) + 1):
            first = hashing.page_hashes(units[: cut * size], size, namespace, bigram=bigram)
            prior = first[-1] if first else None
            rest = hashing.page_hashes(units[cut * size :], size, namespace, prior, bigram=bigram)
            if [*first, *rest] != expected:
                return False
    return True
