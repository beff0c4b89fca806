"""Page names are proven to be separate for an injective digest, and planted slips are found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvlitmus.spec.words.schemes import KVLITMUS_2, SGLANG_1, Domain, Scheme, part
from kvlitmus.spec.words.units import Unit
from tests.proofs.prefix import page_names
from tests.support.night import by_turns

pytestmark = pytest.mark.proof


def test_kvlitmus_2_is_separate_and_injective() -> None:
    assert page_names.no_message_of_a_seed_is_one_of_a_page(KVLITMUS_2) == []
    assert page_names.different_domains_have_different_seeds(KVLITMUS_2) == []
    assert page_names.different_pages_have_different_messages(KVLITMUS_2) == []


def test_the_reference_keeps_every_rule_with_an_injective_digest() -> None:
    judged = page_names.every_rule_holds(KVLITMUS_2)
    assert judged.keys() == {rule.id for rule in page_names.RULES}
    assert min(judged.values()) > 100


def test_no_page_of_one_scheme_is_one_of_the_other() -> None:
    ours = {shape for _, shape in (*page_names.pages(KVLITMUS_2), *page_names.seeds(KVLITMUS_2))}
    theirs = {shape for _, shape in page_names.pages(SGLANG_1)}
    met = [one for one in ours for other in theirs if page_names.meet(one, other)]
    assert all(one[:3] == tuple(b"kvs") for one in met), "only what a seed is made of can be spelt, and it has no pages"


def test_upstreams_scheme_is_not_separate() -> None:
    """Where the lengths agree: 29 bytes of name for a page of 16, and wherever else the suite's prompts are derived."""
    met = page_names.no_message_of_a_seed_is_one_of_a_page(SGLANG_1)
    assert "page 16, a name of 29 bytes, a salt of None: page 16 after 0 bytes" in met
    assert "page 9, a name of 1 bytes, a salt of None: page 9 after 0 bytes" in met
    assert not any("page 8 after 0 bytes" in one for one in met), "bytes that no seed is as short as"
    assert page_names.different_pages_have_different_messages(SGLANG_1) == []


class NoDigestBefore(Scheme):
    """A page is named by its own units."""

    def page_message(self, before: bytes, units: Sequence[Unit]) -> bytes:
        return super().page_message(b"", units)


class ShortTokens(Scheme):
    """Tokens are cut to 16 bits."""

    def page_message(self, before: bytes, units: Sequence[Unit]) -> bytes:
        cut = [(one[0] & 0xFFFF, one[1] & 0xFFFF) if isinstance(one, tuple) else one & 0xFFFF for one in units]
        return super().page_message(before, cut)


def no_lengths(domain: Domain) -> bytes:
    texts = (str(domain.page_size), str(domain.bigram), domain.namespace or "\0", domain.salt or "\0")
    return b"kvs" + "".join(texts).encode()


def no_presence(domain: Domain) -> bytes:
    texts = (str(domain.page_size), str(domain.bigram), domain.namespace or "", domain.salt or "")
    return b"kvs" + b"".join(map(part, texts))


def no_page_size(domain: Domain) -> bytes:
    return KVLITMUS_2.seed_message(domain._replace(page_size=0))


def no_kind(domain: Domain) -> bytes:
    return KVLITMUS_2.seed_message(domain._replace(bigram=False))


def no_salt(domain: Domain) -> bytes:
    return KVLITMUS_2.seed_message(domain._replace(salt=None))


def no_default(domain: Domain) -> bytes:
    return b"" if domain.namespace is None and domain.salt is None else KVLITMUS_2.seed_message(domain)[3:]


@pytest.mark.parametrize("seed", [no_lengths, no_presence, no_page_size, no_kind, no_salt])
def test_seeds_that_are_alike_are_found(seed: page_names.Seed) -> None:
    assert page_names.different_domains_have_different_seeds(KVLITMUS_2._replace(seed_message=seed))


@pytest.mark.parametrize("tag", by_turns([b"", b"kvs"]))
def test_tags_that_do_not_separate_are_found(tag: bytes) -> None:
    """Without tags, and with one for both, where the default namespace has no seed."""
    slip = Scheme("slip", tag, lambda domain: tag * bool(no_default(domain)) + no_default(domain))
    assert page_names.no_message_of_a_seed_is_one_of_a_page(slip)


@pytest.mark.parametrize("slip", by_turns([NoDigestBefore, ShortTokens]))
def test_pages_that_are_alike_are_found(slip: type[Scheme]) -> None:
    scheme = slip(*KVLITMUS_2)
    assert page_names.different_pages_have_different_messages(scheme)
    with pytest.raises(AssertionError, match="HASH-0"):
        page_names.every_rule_holds(scheme)


def test_rules_find_what_is_not_in_the_seed() -> None:
    """One of the two would do: two tokens are as long as a bigram, and longer than a page of one token."""
    neither = KVLITMUS_2._replace(seed_message=lambda domain: no_page_size(domain._replace(bigram=False)))
    with pytest.raises(AssertionError, match="HASH-10"):
        page_names.every_rule_holds(neither)
