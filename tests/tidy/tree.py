"""The files of the project, for the tests in this folder."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"

_FENCE = re.compile(
    r"^(?P<ticks>`{3,}|~{3,})(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=ticks)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


def project_files() -> list[Path]:
    """Return every file that is in a commit, or would be, in the order of paths."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (ROOT / name for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str | None:
    """Return the text of ``path``, or None for a file that is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield all statements, including nested ones, without looking inside expressions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, part, ()))


def markdown_files() -> list[Path]:
    """Return the project's Markdown files."""
    return [path for path in project_files() if path.suffix == ".md"]


def fenced_blocks(markdown: str, language: str) -> list[str]:
    """Return the bodies of the fenced blocks whose first word is ``language``, in order."""
    return [
        block["body"]
        for block in _FENCE.finditer(markdown)
        if block["info"].split()[:1] == [language]
    ]


def named_blocks(markdown: str) -> dict[str, str]:
    """Return the bodies of the fenced blocks whose second word names a file, by that name."""
    return {
        block["info"].split()[1]: block["body"]
        for block in _FENCE.finditer(markdown)
        if len(block["info"].split()) > 1
    }


def without_fences(markdown: str) -> str:
    """Return ``markdown`` without fenced blocks."""
    return _FENCE.sub("", markdown)


def without_blocks(markdown: str) -> str:
    """Return ``markdown`` without fenced blocks and inline code."""
    return re.sub(r"`[^`\n]*`", "", without_fences(markdown))


def table_rows(markdown: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table under ``heading``, without its header rows."""
    section = re.split(
        rf"^#+ {re.escape(heading)}[ \t]*$", markdown, maxsplit=1, flags=re.MULTILINE
    )
    assert len(section) == 2, f"no heading {heading!r}"
    rows: list[list[str]] = []
    for line in section[1].splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows or line.startswith("#"):
            break
    return rows[2:]


def code_words(cell: str) -> list[str]:
    """Return the words that are marked as code in a cell of a table, in order."""
    return re.findall(r"`([^`]+)`", cell)
