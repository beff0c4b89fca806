"""GitHub's runner in small: a workflow, the action of this project within it, and an artifact store; no network.

What a shell step says is run by bash, as the runner does it.  What comes from elsewhere is stood in for:
``actions/checkout`` and ``setup-python`` do nothing, ``actions/cache`` keeps nothing, ``pip`` notes what it was asked
for, and ``upload-artifact`` refuses a name that a job of the same run has used already; ``download-artifact`` has
what earlier jobs of the run have uploaded.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS = "OWNER/kvlitmus@"
"""How printed workflows name this repository's action."""
NOTHING = ("actions/checkout@", "actions/setup-python@", "actions/cache/")
"""Actions of others that leave nothing behind here."""

_TOKEN = re.compile(r"'(?:[^']|'')*'|\|\||&&|[!=]=|!|always\(\)|[\w-]+(?:\.[\w-]+)+|\d+|[()]")
_WORD = {"||": " or ", "&&": " and ", "!": " not ", "always()": " True "}


def value_of(expression: str, contexts: Mapping[str, Any]) -> Any:
    """What an expression is: names of contexts, texts, comparisons, ``&&``, ``||``, ``!``."""

    def python(token: str) -> str:
        if re.fullmatch(r"[\w-]+(?:\.[\w-]+)+", token):
            found: Any = contexts
            for part in token.split("."):
                found = found.get(part, "") if isinstance(found, Mapping) else ""
            return repr(found)
        return _WORD.get(token, token)

    assert not _TOKEN.sub("", expression).strip(), f"can't be read: {expression}"
    return eval("".join(python(token) for token in _TOKEN.findall(expression)), {"__builtins__": {}})


def filled(text: Any, contexts: Mapping[str, Any]) -> str:
    """A text with the expressions in it worked out."""
    text = str(text).lower() if isinstance(text, bool) else str(text)
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(value_of(found[1], contexts)), text)


@dataclass
class Runner:
    """One run of a workflow: the folder of the repository, this project's action, and what its jobs leave behind.

    ``given``: inputs of the action that take the place of the printed ones: budgets, for a test has less time; what
    merges shards plays nothing, and has none.
    """

    repository: Path
    action: Mapping[str, Any]
    given: Mapping[str, str] = field(default_factory=dict)
    artifacts: dict[str, list[str]] = field(default_factory=dict)
    asked_of_pip: list[str] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)

    def play(self, workflow: Mapping[str, Any]) -> dict[str, int]:
        """Play every job of every matrix, each in a fresh checkout; the exit code of each."""
        codes = {}
        for name, job in workflow["jobs"].items():
            for index, matrix in enumerate(combinations(job.get("strategy", {}).get("matrix", {}))):
                contexts = {
                    "matrix": matrix,
                    "strategy": {"job-index": index},
                    "github": {"run_id": 1, "run_attempt": 1},
                }
                shutil.rmtree(self.repository / ".kvlitmus", ignore_errors=True)
                codes[f"{name}-{index}"] = self.steps(job["steps"], contexts)
        return codes

    def steps(self, steps: list[Mapping[str, Any]], contexts: Mapping[str, Any]) -> int:
        """Play steps one after the other; after one that failed only those that always run."""
        code, made = 0, {**contexts, "steps": {}}
        for step in steps:
            condition = str(step.get("if", "")).strip().removeprefix("${{").removesuffix("}}")
            if (code and "always()" not in condition) or (condition and not value_of(condition, made)):
                continue
            outputs: dict[str, str] = {}
            failed = self.shell(step, made, outputs) if "run" in step else self.use(step, made)
            code = code or failed
            made["steps"][step.get("id", "")] = {"outputs": outputs}
        return code

    def use(self, step: Mapping[str, Any], contexts: Mapping[str, Any]) -> int:
        """A step that is an action."""
        inputs = {name: filled(value, contexts) for name, value in step.get("with", {}).items()}
        if step["uses"].startswith((OURS, "./")):
            assert inputs.keys() <= self.action["inputs"].keys(), inputs
            defaults = {name: one.get("default", "") for name, one in self.action["inputs"].items()}
            here = {**contexts["github"], "action_path": "the-action"}
            given = {} if inputs.get("command") == "merge" else self.given
            return self.steps(
                self.action["runs"]["steps"],
                {**contexts, "github": here, "inputs": {**defaults, **inputs, **given}},
            )
        if step["uses"].startswith("actions/upload-artifact@"):
            name, folder = inputs["name"], self.repository / inputs["path"]
            assert name not in self.artifacts, f"two jobs upload {name}"
            self.artifacts[name] = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
            if folder.is_dir():
                shutil.copytree(folder, self.store / name, dirs_exist_ok=True)
            return 0
        if step["uses"].startswith("actions/download-artifact@"):
            assert inputs.get("merge-multiple") == "true", "each artifact in a folder of its own: not stood in for"
            for name in fnmatch.filter(self.artifacts, inputs["pattern"]):
                shutil.copytree(self.store / name, self.repository / inputs["path"], dirs_exist_ok=True)
            return 0
        assert step["uses"].startswith(NOTHING), step["uses"]
        return 0

    @property
    def store(self) -> Path:
        """Where what was uploaded is."""
        return self.repository.parent / "artifacts"

    def shell(self, step: Mapping[str, Any], contexts: Mapping[str, Any], outputs: dict[str, str]) -> int:
        """A step that is a script."""
        tools = self.repository.parent / "tools-of-the-runner"
        notes = {name: tools / name for name in ("pip-log", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        tools.mkdir(exist_ok=True)
        for path in notes.values():
            path.write_text("")
        program(tools / "pip", f'echo "$*" >>{shlex.quote(str(notes["pip-log"]))}')
        python = shlex.quote(sys.executable)
        program(tools / "python", f'if [ "$1 $2" = "-m pip" ]; then shift 2; exec pip "$@"; fi\nexec {python} "$@"')
        env = {name: filled(value, contexts) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", filled(step["run"], contexts)],
            cwd=self.repository,
            env={
                **os.environ,
                **{name: str(path) for name, path in notes.items()},
                **env,
                "PATH": f"{tools}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        lines = notes["GITHUB_OUTPUT"].read_text().splitlines()
        outputs.update({name: value for name, _, value in (line.partition("=") for line in lines)})
        self.asked_of_pip += notes["pip-log"].read_text().splitlines()
        self.summaries += [text for text in [notes["GITHUB_STEP_SUMMARY"].read_text()] if text]
        if done.returncode:
            self.summaries.append(done.stdout + done.stderr)
        return done.returncode


def program(path: Path, text: str) -> None:
    """A small program that is found by its name."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def combinations(matrix: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """All jobs of a matrix; one without it."""
    for values in itertools.product(*matrix.values()):
        yield dict(zip(matrix, values, strict=True))
