"""The mutants: what is changed, what is left unchanged, and the name of each."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from tools.mutation.mutants import Mutant, find_mutants


def mutants_of(source: str) -> list[Mutant]:
    return find_mutants("core/it.py", ast.parse(dedent(source)))


def texts_of(body: str, *, returns: str = "object") -> list[str]:
    """Return operator and text of the mutants of a statement in a function of ``x`` and ``y``."""
    found = mutants_of(f"def f(x, y) -> {returns}:\n    {body}\n")
    return [f"{mutant.operator}: {mutant.text}" for mutant in found]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("z = x < y", ["boundary: z = x < y -> z = x <= y", "negate: z = x < y -> z = x >= y"]),
        ("z = x is y", ["negate: z = x is y -> z = x is not y"]),
        ("z = x not in y", ["negate: z = x not in y -> z = x in y"]),
        ("z = x + y", ["arithmetic: z = x + y -> z = x - y"]),
        ("z = x // y", ["arithmetic: z = x // y -> z = x * y"]),
        ("z = x | y", ["arithmetic: z = x | y -> z = x & y"]),
        ("z = x and y", ["and-or: z = x and y -> z = x or y"]),
        ("z = not x", ["unary: z = not x -> z = x"]),
        ("z = 7", ["constant: z = 7 -> z = 8", "constant: z = 7 -> z = 6"]),
        ("z = True", ["constant: z = True -> z = False"]),
        ("z = min(x, y)", ["call: z = min(x, y) -> z = max(x, y)"]),
        ("z = sorted(x)", ["call: z = sorted(x) -> z = list(x)"]),
        ("z = sorted(x, key=y)", ["order: z = sorted(x, key=y) -> z = sorted(x)"]),
        ("z = x if y else f", ["branch: z = x if y else f -> z = x if not y else f"]),
        ("z = [a for a in x if a]", ["filter: [a for a in x if a] -> [a for a in x]"]),
        ("x.y = f", ["drop: x.y = f -> pass"]),
        ("x = y", ["drop: x = y -> pass"]),
        ("del x[y]", ["drop: del x[y] -> pass"]),
        ("x(y)", ["drop: x(y) -> pass"]),
        ("x += y", ["arithmetic: x += y -> x -= y", "drop: x += y -> pass"]),
        ("raise x", ["drop: raise x -> pass"]),
    ],
)
def test_a_statement_has_these_mutants(body: str, expected: list[str]) -> None:
    assert texts_of(body) == expected


def test_the_branches_of_an_if_are_swapped_by_its_condition() -> None:
    assert texts_of("if x: z = y")[:1] == ["branch: if x: -> if not x:"]
    assert texts_of("if x == y: z = y") == ["negate: if x == y: -> if x != y:"]


def test_an_element_of_a_sort_key_is_dropped() -> None:
    found = mutants_of("def f(z):\n    z.sort(key=lambda a: (a.x, a.y))\n")
    assert [(m.operator, m.text) for m in found[1:]] == [
        ("sort-key", "key=lambda a: (a.x, a.y) -> key=lambda a: (a.y,)"),
        ("sort-key", "key=lambda a: (a.x, a.y) -> key=lambda a: (a.x,)"),
    ]
    named = mutants_of("def order_key(z) -> object:\n    return (z.x, z.y)\n")
    assert [m.text for m in named] == [
        "return (z.x, z.y) -> return (z.y,)",
        "return (z.x, z.y) -> return (z.x,)",
    ]


@pytest.mark.parametrize(
    ("returns", "values"),
    [
        ("int", ["0"]),
        ("bool", ["True", "False"]),
        ("tuple[str, ...]", ["()"]),
        ("dict[str, int] | None", ["{}", "None"]),
        ("Plan", []),
    ],
)
def test_a_function_returns_what_its_type_calls_nothing(returns: str, values: list[str]) -> None:
    expected = [f"return: return x -> return {value}" for value in values]
    assert texts_of("return x", returns=returns) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring, 1 < 2."""',
        "from typing import Final",
        "x: tuple[int, 3]",
        "def f(x: 1 + 1) -> 2: ...",
        "@cached(1)\ndef f(): ...",
        "class A(Base, frozen=True): ...",
        "__slots__ = (1, 2)",
        "__all__ = [1]",
        "if TYPE_CHECKING:\n    x = 1",
        "Both = A | B",
        "def f(x):\n    assert x > 1, x + 1",
        "def f(x):\n    assert_never(x)",
        "def f(x):\n    raise AssertionError(x + 1)",
        "def f(x):\n    logger.info(x + 1)",
        "def f(x):\n    return zip(x, x, strict=True)",
        "def f(x):\n    y = x",
        "class A:\n    def __init__(self, x):\n        self.x = x",
    ],
)
def test_what_no_test_could_notice_is_left_alone(source: str) -> None:
    assert mutants_of(source) == []


def test_a_mutant_says_where_it_is_and_which_lines_run_it() -> None:
    first, second = mutants_of(
        """\
        class A:
            def f(self, x):
                y = g(
                    x < 1
                )
        """
    )[:2]
    assert (first.function, first.line, first.first, first.last) == ("A.f", 4, 3, 5)
    assert not first.imported
    assert {first.operator, second.operator} == {"boundary", "negate"}


def test_the_lines_of_a_compound_statement_are_its_head() -> None:
    (found,) = mutants_of("def f(x, y):\n    if x and y:\n        z = x\n")[1:]
    assert (found.first, found.last) == (2, 2)


def test_what_runs_on_import_says_so() -> None:
    found = mutants_of("LIMIT = 5\ndef f(x=1):\n    return x\n")
    assert {(m.imported, m.function) for m in found} == {(True, "<module>")}
    assert len(found) == 4


def test_two_mutants_with_one_text_are_told_apart() -> None:
    found = mutants_of("def f(x):\n    x.add(1 + x)\n    x.add(1 + x)\n")
    keys = [mutant.key for mutant in found]
    assert len(set(keys)) == len(keys)
    assert keys[len(keys) // 2][3].endswith(" #2")


def test_a_change_is_made_and_taken_back() -> None:
    tree = ast.parse("def f(x):\n    return x + 1\n")
    before = ast.unparse(tree)
    (mutant,) = [m for m in find_mutants("core/it.py", tree) if m.operator == "arithmetic"]
    assert ast.unparse(tree) == before
    old = mutant.change.put()
    assert isinstance(old, ast.Add)
    assert ast.unparse(tree) == before.replace("+", "-")


@pytest.mark.slow
def test_every_mutant_of_a_module_compiles() -> None:
    tree = ast.parse(dedent(_EVERYTHING))
    found = find_mutants("core/it.py", tree)
    assert len(found) > 20
    for mutant in found:
        again = ast.parse(dedent(_EVERYTHING))
        twin = next(m for m in find_mutants("core/it.py", again) if m.key == mutant.key)
        twin.change.put()
        compile(ast.fix_missing_locations(again), "it.py", "exec")
        assert ast.unparse(again) != ast.unparse(tree), mutant


_EVERYTHING = """
    LIMIT = 3

    def f(xs: list[int], y: int = 2) -> tuple[int, ...]:
        total = 0
        for x in sorted(xs, key=lambda each: (each, -each)):
            if not x or x > y:
                continue
            while total < LIMIT and y:
                total += x << 1
                break
            match x:
                case 1:
                    yield f"{x + 1}"
                case -1:
                    del xs[0]
        return tuple(min(x, y) for x in xs if x % 2 == 0 if x)
"""
