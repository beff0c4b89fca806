"""Where the project's own tests keep their examples."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    GitHubArtifactDatabase,
    MultiplexedDatabase,
    ReadOnlyDatabase,
)

from tests.conftest import ARTIFACT, example_database


def test_ci_plays_the_same_examples_every_time_and_keeps_none() -> None:
    ci = settings.get_profile("ci")
    assert ci.derandomize and ci.database is None


@pytest.mark.parametrize("name", ["dev", "nightly"])
def test_the_others_search_at_random_and_keep_what_they_find(name: str) -> None:
    profile = settings.get_profile(name)
    assert not profile.derandomize and profile.database is not None


def test_without_a_shared_database_examples_are_local(tmp_path: Path) -> None:
    database = example_database({}, str(tmp_path))
    assert isinstance(database, DirectoryBasedExampleDatabase)
    database.save(b"key", b"value")
    assert list(example_database({}, str(tmp_path)).fetch(b"key")) == [b"value"]


def test_shared_examples_are_read_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    night = DirectoryBasedExampleDatabase(tmp_path / "night")
    night.save(b"key", b"found at night")
    shared = tmp_path / "artifact"
    shared.mkdir()
    stamp = datetime.now(UTC).isoformat().replace(":", "_")
    with zipfile.ZipFile(shared / f"{stamp}.zip", "w") as file:  # as the workflow uploads it, downloaded just now
        for path in sorted((tmp_path / "night").rglob("*")):
            file.write(path, path.relative_to(tmp_path / "night"))
    before = (shared / f"{stamp}.zip").read_bytes()
    database = example_database({"KVLITMUS_HYPOTHESIS_SHARED": "somebody/kvlitmus"}, str(tmp_path / "local"))
    assert isinstance(database, MultiplexedDatabase)
    local, fallback = database._wrapped
    assert isinstance(fallback, ReadOnlyDatabase) and isinstance(fallback._wrapped, GitHubArtifactDatabase)
    artifact = fallback._wrapped
    assert (artifact.owner, artifact.repo, artifact.artifact_name) == ("somebody", "kvlitmus", ARTIFACT)
    artifact.path, artifact._storage_dir = shared, None
    database.save(b"key", b"found here")
    assert set(database.fetch(b"key")) == {b"found here", b"found at night"}
    assert set(local.fetch(b"key")) == {b"found here"}
    assert (shared / f"{stamp}.zip").read_bytes() == before


@pytest.mark.parametrize("name", ["kvlitmus", "a/b/c", "https://github.com/a/b", "a b/c"])
def test_a_shared_database_needs_owner_and_repository(name: str) -> None:
    with pytest.raises(pytest.UsageError, match="OWNER/REPOSITORY"):
        example_database({"KVLITMUS_HYPOTHESIS_SHARED": name})
