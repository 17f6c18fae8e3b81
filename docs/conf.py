"""How Sphinx makes the site of these pages: ``make docs``, and docs/adr/0058-docs-as-a-site.md.

The source is the whole repository, so that a link between two pages is the same on the site as in
the repository. The navigation is what the pages themselves list: ``docs/README.md`` by heading,
and the lists of decisions and of rules.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Quorate"
extensions = ["myst_parser"]
include_patterns = [
    "docs/**",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "deploy/README.md",
    "examples/*/README.md",
]
root_doc = "docs/README"
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Quorate"
html_show_sphinx = False
html_copy_source = False
html_extra_path = ["site"]
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))

_ALL: Final = "docs/README"
"""The page that lists all others; decisions and rules are listed by pages of their own."""
_OF_A_FOLDER: Final = ("docs/adr/README", "docs/design/README")
_HEADING: Final = re.compile(r"^## (.+)$")
_ROW: Final = re.compile(r"^(?:- |\| )")
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#:]+)\.md\)")


def parts_of(page: str, text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each heading of a page with the titles and pages that its list links to, once each."""
    found: list[tuple[str, list[tuple[str, str]]]] = [("", [])]
    seen = {page}
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            found.append((heading[1], []))
        elif _ROW.match(line):
            for title, target in _LINK.findall(line):
                name = normpath(join(dirname(page), target))
                if name not in seen:
                    seen.add(name)
                    found[-1][1].append((title, name))
    return [each for each in found if each[1]]


def _add_navigation(_: Sphinx, page: str, source: list[str]) -> None:
    if page == _ALL:
        for caption, rows in parts_of(page, source[0]):
            lines = [f"{title} </{name}>" for title, name in rows]
            source[0] += _tree([f":caption: {caption}", "", *lines])
    elif page in _OF_A_FOLDER:
        names = [name for _, rows in parts_of(page, source[0]) for _, name in rows]
        own = [f"/{name}" for name in names if dirname(name) == dirname(page)]
        source[0] += _tree(["", *own])


def _tree(lines: list[str]) -> str:
    return "\n".join(["", "", "```{toctree}", ":hidden:", *lines, "```", ""])


def setup(app: Sphinx) -> None:
    """Give the pages their navigation."""
    app.connect("source-read", _add_navigation)
