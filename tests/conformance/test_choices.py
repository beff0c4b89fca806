"""Configurations and profiles refuse what they don't know, in one line that says what is legal."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.ports import Config, Profile, choices
from kvlitmus.conformance.ports.template_words import meanings_of, prose
from tests.conformance.support.command_line import Capture


class Odd:
    """A value that compares, hashes and shows itself badly."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("no text")


REFUSED: list[tuple[type, dict[str, Any], str]] = [
    (
        Profile,
        {"duplicates": "caller-frees"},
        "(got 'caller-frees'); did you mean 'caller_frees' or",
    ),
    (Profile, {"misuse": "rejct"}, "did you mean 'reject'?"),
    (Profile, {"hit_counts": "nune"}, "did you mean 'none'?"),
    (Profile, {"reserved": 2}, "profile.reserved must be a whole number from 0 to 1 (got 2)"),
    (Profile, {"reserved": True}, "profile.reserved must be a whole number from 0 to 1 (got True)"),
    (Profile, {"lock_touches": "yes"}, "profile.lock_touches must be True or False (got 'yes')"),
    (Profile, {"align": ["reject"]}, "profile.align must be 'reject' or 'round_up' (got ['reject'])"),
    (Profile, {"align": Odd()}, "profile.align must be 'reject' or 'round_up' (got \u2039Odd whose __repr__"),
    (Profile, {"timeout": (1.0, -1.0, 0.0)}, "profile.timeout must be 3 numbers of seconds, none below 0 (got (1.0"),
    (Profile, {"timeout": (1.0, float("nan"), 0.0)}, "profile.timeout must be 3 numbers"),
    (Profile, {"timeout": "soon"}, "profile.timeout must be 3 numbers of seconds"),
    (Profile, {"slru_hits": 0}, "profile.slru_hits must be a whole number from 1 to"),
    (Config, {"policy": "lruu"}, "did you mean 'lru' or 'slru'?"),
    (Config, {"page_size": 0}, "config.page_size must be a whole number from 1 to 1024 (got 0)"),
    (Config, {"pages": "32"}, "config.pages must be a whole number from 1 to 1048576 (got '32')"),
    (Config, {"storage": "attach"}, "did you mean 'attached'?"),
]


@pytest.mark.parametrize(("kind", "given", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_not_legal_is_refused(kind: type, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        kind(**given)
    with pytest.raises(ValueError, match=re.escape(said)):
        replace(kind(), **given)


def test_a_field_that_there_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="a profile has no field 'reservd'; did you mean 'reserved'"):
        Profile(reservd=0)  # type: ignore[call-arg]


@pytest.mark.parametrize(("kind", "legal"), [(Config, choices.CONFIG), (Profile, choices.PROFILE)])
def test_every_legal_value_can_be_given_and_is_explained(kind: type, legal: dict[str, tuple[str, ...] | range]) -> None:
    text = prose(kind)
    meanings = meanings_of(kind)
    assert set(legal) <= {one.name for one in fields(kind)}
    for name, values in legal.items():
        for value in values if isinstance(values, tuple) else (values[0], values[-1]):
            assert getattr(kind(**{name: value}), name) == value
            if isinstance(value, str) and name != "policy":
                assert value in meanings.get(name, text), (name, value)


def test_a_field_of_free_text_takes_any_short_one() -> None:
    assert choices.fault("kvlitmus-2", "other", None) == ""
    assert "a text of at most 40 characters" in choices.fault("x" * 41, "other", None)
    assert "a text of at most 40 characters" in choices.fault(1, "other", None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Profile(misuse='rejct')", "profile.misuse must be 'undefined', 'reject' or 'ignore' (got 'rejct')"),
        ("Profile(reservd=0)", "a profile has no field 'reservd'; did you mean 'reserved'"),
        ("{'reserved': 0}", "a target's profile must be a Profile (got dict)"),
        ("[]", "a target's profile must be a Profile (got list)"),
        ("None", "a target must declare the choices that its cache makes: profile = Profile(...)"),
    ],
)
def test_a_target_with_such_a_profile_is_one_line(
    line: str, said: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd_target.py").write_text(
        "from kvlitmus.conformance.ports import Profile\n"
        f"profile = {line}\n"
        "def make(config):\n    raise NotImplementedError\n"
    )
    assert main(["smoke", "odd_target"]) == 3
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
