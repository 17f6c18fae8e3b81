"""There are no import cycles, neither at run time nor between types."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.tree import ROOT, SOURCE, project_files, statements

EXPLAINED: Final[Mapping[frozenset[str], str]] = {}
"""Cycles that an ADR explains, by the names of their modules."""

Graph = Mapping[str, frozenset[str]]


def _modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in project_files():
        if path.suffix == ".py" and path.is_relative_to(SOURCE):
            parts = path.relative_to(SOURCE).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(tree: ast.Module, modules: Mapping[str, object]) -> Iterator[str]:
    """Yield all imported modules: at the top of the file, in functions, and for types."""
    for node in statements(tree):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                for alias in aliases:
                    inner = f"{module}.{alias.name}"
                    yield inner if inner in modules else module
            case _:
                pass


def _graph() -> Graph:
    modules = _modules()
    return {
        name: frozenset(
            other
            for other in _imports(ast.parse(path.read_text(encoding="utf-8")), modules)
            if other in modules and other != name
        )
        for name, path in modules.items()
    }


def cycles(graph: Graph) -> list[list[str]]:
    """Return the sets of modules that import each other in a cycle, each sorted."""
    search = _Tarjan(graph)
    for root in graph:
        search.walk_from(root)
    return sorted(search.found)


class _Tarjan:
    """Finds strongly connected components, without recursion.

    R. Tarjan, Depth-first search and linear graph algorithms, 1972.
    """

    def __init__(self, graph: Graph) -> None:
        self.found: list[list[str]] = []
        self._graph = graph
        self._number: dict[str, int] = {}
        self._low: dict[str, int] = {}
        self._open: dict[str, None] = {}
        self._path: list[tuple[str, Iterator[str]]] = []

    def walk_from(self, root: str) -> None:
        """Visit everything that ``root`` reaches and that was not visited before."""
        if root not in self._number:
            self._enter(root)
        while self._path:
            name, rest = self._path[-1]
            other = next(rest, None)
            if other is None:
                self._leave(name)
            elif other not in self._number:
                self._enter(other)
            elif other in self._open:
                self._low[name] = min(self._low[name], self._number[other])

    def _enter(self, name: str) -> None:
        self._number[name] = self._low[name] = len(self._number)
        self._open[name] = None
        self._path.append((name, iter(self._graph[name])))

    def _leave(self, name: str) -> None:
        self._path.pop()
        if self._path:
            above = self._path[-1][0]
            self._low[above] = min(self._low[above], self._low[name])
        if self._low[name] == self._number[name]:
            part = [each for each in self._open if self._number[each] >= self._number[name]]
            for each in part:
                del self._open[each]
            if len(part) > 1:
                self.found.append(sorted(part))


def test_cycles_are_found_and_nothing_else_is() -> None:
    none = frozenset[str]()
    assert cycles({"a": frozenset("bc"), "b": frozenset("c"), "c": none}) == []
    two = {"a": frozenset("b"), "b": frozenset("ca"), "c": frozenset("d"), "d": frozenset("ec")}
    assert cycles({**two, "e": none}) == [["a", "b"], ["c", "d"]]
    long = {str(at): frozenset({str((at + 1) % 2_000)}) for at in range(2_000)}
    assert [len(each) for each in cycles(long)] == [2_000]


@pytest.mark.heavy
def test_no_module_needs_itself_except_where_an_adr_says_why() -> None:
    found = {frozenset(name.rpartition(".")[2] for name in each): each for each in cycles(_graph())}
    assert [each for names, each in found.items() if names not in EXPLAINED] == []
    assert [set(names) for names in EXPLAINED if names not in found] == [], "it is mended: take out"


def test_an_adr_names_the_modules_of_each_cycle_that_is_left() -> None:
    for names, adr in EXPLAINED.items():
        text = (ROOT / adr).read_text(encoding="utf-8")
        assert [name for name in names if f"`{name}`" not in text] == [], adr
