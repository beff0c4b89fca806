"""A module's public names as Markdown that reads well on a code host and on the site: read from its source, not run.

Classes, functions and documented constants stand in the order of the source, each with its docstring.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_TERM = re.compile(r"^(\w+(?:, \w+)*): ")


def modules_page(title: str, sources: Mapping[str, Path]) -> str:
    """The page of one module, or of some that belong together: link to the source → module.

    The first one's docstring introduces them all.
    """
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sources.values()]
    _, _, body = markdown(ast.get_docstring(trees[0]) or "").partition("\n")
    links = ", ".join(f"[{path.name}]({home})" for home, path in sources.items())
    lines = [f"# {title}", "", body.strip(), "", f"Source: {links}."]
    for tree in trees:
        for node, comment in documented(tree.body):
            lines += ["", *entry(node, comment)]
    return "\n".join(lines) + "\n"


def documented(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Public definitions with their docstrings; a constant's is the string that follows it."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            match after:
                case ast.Expr(ast.Constant(str() as text)):
                    yield node, inspect.cleandoc(text)


def entry(node: ast.stmt, text: str) -> list[str]:
    """One class, function or constant."""
    if isinstance(node, ast.ClassDef):
        return _class(node, text)
    if isinstance(node, ast.FunctionDef):
        return ["## " + node.name, "", *code(_signature(node)), "", markdown(text)]
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
    )
    name = ast.unparse(target) if target is not None else ""
    return ["## " + name, "", markdown(text), *_table(getattr(node, "value", None))]


def _table(value: ast.expr | None) -> list[str]:
    """What a constant is: the words of a tuple, or a table with one entry a line; nothing for other kinds."""
    if isinstance(value, ast.Tuple) and all(isinstance(one, ast.Constant) for one in value.elts):
        return ["", *code(ast.unparse(value).replace("'", '"'))]
    if not isinstance(value, ast.Dict):
        return []
    keys = [ast.unparse(key) if key else "**" for key in value.keys]
    lines = [f"{key}: {ast.unparse(one)}".replace("'", '"') for key, one in zip(keys, value.values, strict=True)]
    return ["", *code("\n".join(line.replace("**: ", "**") for line in lines))]


def _class(node: ast.ClassDef, text: str) -> list[str]:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = ["## " + node.name, "", *([f"*{bases}*", ""] if bases else []), markdown(text)]
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    if fields:
        lines += ["", *code("\n".join(ast.unparse(one).replace("'", '"') for one in fields))]
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            lines += ["", *code(_signature(method)), "", markdown(ast.get_docstring(method) or "")]
    return lines


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list):
        return f"{node.name}: {ast.unparse(node.returns) if node.returns else 'object'}"
    return f"{node.name}({ast.unparse(node.args)}){returns}"


def code(text: str) -> list[str]:
    """Python as Markdown."""
    return ["```python", text, "```"]


def markdown(text: str) -> str:
    """A docstring as Markdown: roles become code, terms with their meanings a list."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?([\w]+)`", r"`\1`", text)
    text = text.replace("``", "`")
    text = re.sub(r"^\* ", "- ", text, flags=re.MULTILINE)
    return "\n".join(_terms(_tables(text.splitlines())))


def _tables(lines: Sequence[str]) -> list[str]:
    """A table between lines of ``=``, whose columns stand below these, becomes one of Markdown's."""
    ruled = [at for at, line in enumerate(lines) if re.fullmatch(r"=+( +=+)+", line)]
    found = list(lines)
    for top, head, bottom in reversed(list(zip(ruled[::3], ruled[1::3], ruled[2::3], strict=True))):
        columns = [bar.start() for bar in re.finditer("=+", lines[top])]
        rows = []
        for line in [*lines[top + 1 : head], *lines[head + 1 : bottom]]:
            cells = [line[start:end].strip() for start, end in zip(columns, [*columns[1:], None], strict=True)]
            rows.append(f"| {' | '.join(cells)} |")
        found[top : bottom + 1] = [rows[0], "|---" * len(columns) + "|", *rows[1:]]
    return found


def _terms(lines: Sequence[str]) -> Iterator[str]:
    """``name: meaning`` becomes an item of a list, and so does code with an indented line that explains it."""
    inside = False
    for at, line in enumerate(lines):
        following = lines[at + 1] if at + 1 < len(lines) else ""
        term = _TERM.match(line)
        if term and (inside or following.startswith("    ") or _TERM.match(following)):
            if not inside and at and lines[at - 1]:
                yield ""
            inside = True
            yield f"- **{term[1]}**: {line[term.end() :]}"
        elif line.startswith("`") and following.startswith("    ") and (inside or not (at and lines[at - 1])):
            inside = True
            yield f"- {line}:"
        else:
            inside = inside and bool(line) and (line.startswith(" ") or bool(term))
            yield line
