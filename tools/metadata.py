"""What depends on where the project is hosted: links in the package's metadata, and in the README that PyPI shows.

A hook of hatchling.  Nothing in the checkout names its host, so a fork's package never points to somebody
else.  The build is told: by ``KVLITMUS_REPOSITORY``, a URL; in a workflow by GitHub's own variables; else by the
remote ``origin``.  Without any of these the package has no links, and the README's stay as they are.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {
    "Documentation": "docs/index.md",
    "Changelog": "CHANGELOG.md",
    "Results": "docs/results/README.md",
}
"""Pages that the metadata point to, by the names that PyPI shows."""


def repository(root: Path, environment: Mapping[str, str]) -> str:
    """The project's address on its host, without a slash at the end; empty where nothing says it.

    Raises ``ValueError`` for an address that browsers could not open.
    """
    given = environment.get("KVLITMUS_REPOSITORY", "")
    if not given and environment.get("GITHUB_REPOSITORY"):
        given = f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{environment['GITHUB_REPOSITORY']}"
    if given:
        if not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+/?", given):
            raise ValueError(f"KVLITMUS_REPOSITORY must be like https://HOST/OWNER/NAME (got {given!r})")
        return given.rstrip("/")
    asked = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        origin = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
    found = re.fullmatch(r"(?:https://|git@)([\w.-]+)[:/]([\w.-]+(?:/[\w.-]+)+)", origin.removesuffix(".git"))
    return f"https://{found[1]}/{found[2]}" if found else ""


def absolute(text: str, home: str, revision: str) -> str:
    """The README with links that also work elsewhere."""
    return re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", rf"]({home}/blob/{revision}/\1)", text)


class CustomMetadataHook(MetadataHookInterface):
    """Fills in ``urls`` and ``readme``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling before it writes the metadata."""
        root = Path(self.root)
        home = repository(root, os.environ)
        revision = os.environ.get("GITHUB_SHA", "HEAD")
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, home, revision) if home else text,
        }
        if home:
            pages = {name: f"{home}/blob/HEAD/{path}" for name, path in PAGES.items()}
            metadata["urls"] = {"Repository": home, "Issues": f"{home}/issues", **pages}
        else:
            metadata["urls"] = {}
