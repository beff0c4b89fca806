"""What hatchling asks when the package is built: links that depend on where it is hosted, and the compiled core.

Nothing in the checkout names its host, so a fork's package never points to somebody else.  The build is told: by
``KVLITMUS_REPOSITORY``, a URL; in a workflow by GitHub's own variables; else by the remote ``origin``.  Without any of
these the package has no links, and the README's stay as they are.

A wheel gets the extension module of the optimized cache and the tag of this interpreter and platform, where there is a
C++ compiler.  Where there is none, or it fails, the reason is said (pip shows it with ``-v``) and the wheel is a pure
one: the cache then runs on its tree in Python.  An editable installation gets the module beside its sources.
``KVLITMUS_BUILD_CORE``: ``auto`` (the default) as above; ``never`` builds a pure wheel without looking for a compiler;
``always`` fails where there would be no core, for whoever publishes wheels.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "optimized"))

from kvlitmus.optimized.build_core import NotBuilt, build

PAGES = {
    "Documentation": "docs/tutorial.md",
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


SWITCH = "KVLITMUS_BUILD_CORE"
PACKAGE = Path("optimized", "kvlitmus", "optimized")


def chosen() -> str:
    """What the switch says; raises ``ValueError`` for what it doesn't know."""
    found = os.environ.get(SWITCH, "") or "auto"
    if found not in ("auto", "never", "always"):
        raise ValueError(f"{SWITCH} must be auto, never or always (got {found!r})")
    return found


class CustomBuildHook(BuildHookInterface[Any]):
    """Builds the module before hatchling collects the files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling; ``version`` is ``standard`` or ``editable``."""
        wanted = chosen()
        if wanted == "never":
            return
        package = Path(self.root) / PACKAGE
        try:
            if version == "editable":
                build(package)
                return
            self.folder = TemporaryDirectory(prefix="kvlitmus-core-")
            module = build(package, Path(self.folder.name))
        except NotBuilt as reason:
            if wanted == "always":
                raise
            self.app.display_warning(f"kvlitmus: without its compiled core: {reason}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"][str(module)] = f"kvlitmus/optimized/{module.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling when the wheel is written."""
        if hasattr(self, "folder"):
            self.folder.cleanup()
