"""The compiled core of the optimized cache, built with the package: a hook of hatchling.

A wheel gets the extension module and the tag of this interpreter and platform, where there is a C++ compiler.  Where
there is none, or it fails, the reason is said (pip shows it with ``-v``) and the wheel is a pure one: the cache then
runs on its tree in Python.  An editable installation gets the module beside its sources.

``KVLITMUS_BUILD_CORE``: ``auto`` (the default) as above; ``never`` builds a pure wheel without looking for a compiler;
``always`` fails where there would be no core, for whoever publishes wheels.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.build_core import NotBuilt, build

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
