"""Finds mutants in a syntax tree: every small change to a module that a test should notice.

Code that no test can or should observe is not changed: annotations, docstrings, assertions, log
calls, ``__slots__``, ``TYPE_CHECKING`` blocks, decorators, class options and ``strict=`` of
``zip``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

_COMPARE: Final[dict[type[ast.cmpop], tuple[tuple[str, type[ast.cmpop]], ...]]] = {
    ast.Lt: (("boundary", ast.LtE), ("negate", ast.GtE)),
    ast.LtE: (("boundary", ast.Lt), ("negate", ast.Gt)),
    ast.Gt: (("boundary", ast.GtE), ("negate", ast.LtE)),
    ast.GtE: (("boundary", ast.Gt), ("negate", ast.Lt)),
    ast.Eq: (("negate", ast.NotEq),),
    ast.NotEq: (("negate", ast.Eq),),
    ast.Is: (("negate", ast.IsNot),),
    ast.IsNot: (("negate", ast.Is),),
    ast.In: (("negate", ast.NotIn),),
    ast.NotIn: (("negate", ast.In),),
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_EMPTY: Final = {
    "int": ("0",),
    "bool": ("True", "False"),
    "str": ("''",),
    "bytes": ("b''",),
    "tuple": ("()",),
    "list": ("[]",),
    "dict": ("{}",),
    "set": ("set()",),
    "frozenset": ("frozenset()",),
    "None": ("None",),
}
_UNSEEN_FIELDS: Final = {"annotation", "returns", "decorator_list"}
_UNSEEN_NAMES: Final = {"__slots__", "__all__", "__match_args__"}
_LOGGERS: Final = {"log", "logger", "logging"}
_SORT_KEY: Final = re.compile(r"key|order|rank")
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Change:
    """One new value in a syntax tree: for an attribute of ``holder``, or an entry of its list."""

    holder: ast.AST
    name: str
    index: int | None
    new: Any

    def put(self) -> Any:  # a node, an operator, a name or a list of nodes
        """Make the change in place, and return the former value."""
        if self.index is None:
            old = getattr(self.holder, self.name)
            setattr(self.holder, self.name, self.new)
        else:
            old = getattr(self.holder, self.name)[self.index]
            getattr(self.holder, self.name)[self.index] = self.new
        return old


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change, identified by its module, function, operator and text.

    ``first`` to ``last`` are the lines of the statement around the change. ``imported`` says that
    these lines run at the import of the module, so no single test executes them.
    """

    module: str
    function: str
    operator: str
    text: str
    line: int
    first: int
    last: int
    imported: bool
    change: Change = field(compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of the mutant in the list of accepted survivors."""
        return (self.module, self.function, self.operator, self.text)

    def rank(self, seed: int) -> bytes:
        """Its place in the draw, which other changes of the module do not affect."""
        return sha256("\0".join((str(seed), *self.key)).encode()).digest()


def find_mutants(module: str, tree: ast.Module) -> list[Mutant]:
    """Return every mutant of ``tree`` in the order of the source; each has its own text."""
    found = list(_Finder(module).within(tree, _Around((), 0, 0, 0, None)))
    seen: Counter[tuple[str, ...]] = Counter()
    named: list[Mutant] = []
    for mutant in found:
        seen[mutant.key] += 1
        count = seen[mutant.key]
        named.append(mutant if count == 1 else replace(mutant, text=f"{mutant.text} #{count}"))
    return named


@dataclass(frozen=True, slots=True)
class _Around:
    """The context of a node: enclosing names, its line, its statement's lines, its function."""

    names: tuple[str, ...]
    line: int
    first: int
    last: int
    function: ast.FunctionDef | ast.AsyncFunctionDef | None


class _Finder:
    def __init__(self, module: str) -> None:
        self.module = module
        self.statement: ast.stmt = ast.Pass()

    def within(self, node: ast.AST, around: _Around) -> Iterator[Mutant]:
        """Yield the mutants of the children of ``node``."""
        for name, value in ast.iter_fields(node):
            if name in _UNSEEN_FIELDS or (isinstance(node, ast.ClassDef) and name != "body"):
                continue
            inner = around
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and name == "body":
                function = node if isinstance(node, _FUNCTIONS) else None
                inner = replace(around, names=(*around.names, node.name), function=function)
            listed = isinstance(value, list)
            for index, child in enumerate(value if listed else [value]):
                if isinstance(child, ast.AST) and not _is_unseen(child):
                    place = Change(node, name, index if listed else None, None)
                    yield from self._at(child, place, inner)

    def _at(self, node: ast.AST, place: Change, around: _Around) -> Iterator[Mutant]:
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            around = replace(around, first=node.lineno, last=max(node.lineno, last))
            self.statement = node
        for operator, change in _changes(node, place, around):
            inner = isinstance(place.holder, (ast.expr, ast.keyword))
            shown = place.holder if inner else self.statement
            line = getattr(node, "lineno", around.first)
            yield self._mutant(operator, change, shown, replace(around, line=line))
        yield from self.within(node, around)

    def _mutant(self, operator: str, change: Change, shown: ast.AST, around: _Around) -> Mutant:
        before = ast.unparse(shown)
        old = change.put()
        after = "pass" if operator == "drop" else ast.unparse(shown)
        replace(change, new=old).put()
        return Mutant(
            module=self.module,
            function=".".join(around.names) or "<module>",
            operator=operator,
            text=f"{_header(before)} -> {_header(after)}",
            line=around.line,
            first=around.first,
            last=around.last,
            imported=around.function is None,
            change=change,
        )


def _header(text: str) -> str:
    """Return one line of text; for a compound statement, its head."""
    head, _, rest = text.partition("\n")
    return head if rest.startswith(" ") and head.endswith(":") else " ".join(text.split())


def _is_unseen(node: ast.AST) -> bool:
    match node:
        case (
            (ast.Assert() | ast.Import() | ast.ImportFrom() | ast.keyword(arg="strict"))
            | ast.Expr(value=ast.Constant() | ast.Call(func=ast.Name(id="assert_never")))
            | ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError")))
            | ast.If(test=ast.Name(id="TYPE_CHECKING"))
        ):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _LOGGERS
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in _UNSEEN_NAMES
        case _:
            return False


def _changes(node: ast.AST, place: Change, around: _Around) -> Iterator[tuple[str, Change]]:
    """Yield each operator that applies to ``node``, at ``place``, with its change."""
    match node:
        case ast.stmt():
            yield from _of_statement(node, place, around)
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for name, other in _COMPARE[type(op)]:
                    yield name, Change(node, "ops", index, other())
        # At import, a bar joins types; other operators do not.
        case ast.BinOp(op=op) if around.function is not None or not isinstance(op, ast.BitOr):
            yield from _calculated(node, op)
        case ast.BoolOp(op=ast.And()):
            yield "and-or", Change(node, "op", None, ast.Or())
        case ast.BoolOp():
            yield "and-or", Change(node, "op", None, ast.And())
        case ast.UnaryOp(operand=operand):
            yield "unary", replace(place, new=operand)
        case ast.IfExp(test=test):
            yield from _negated(node, test)
        case _:
            yield from _of_value(node)


def _of_value(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Constant(value=bool(value)):
            yield "constant", Change(node, "value", None, not value)
        case ast.Constant(value=int(value)):
            yield "constant", Change(node, "value", None, value + 1)
            yield "constant", Change(node, "value", None, value - 1)
        case ast.comprehension(ifs=ifs):
            for index in range(len(ifs)):
                yield "filter", Change(node, "ifs", None, ifs[:index] + ifs[index + 1 :])
        case ast.Call(func=ast.Name(id="sorted"), keywords=[_, *_]):
            yield "order", Change(node, "keywords", None, [])
        case ast.Call(func=ast.Name(id=name) as func) if name in _CALLS:
            yield "call", Change(func, "id", None, _CALLS[name])
        case ast.Lambda(body=ast.Tuple() as keys):
            yield from _dropped_keys(keys)
        case _:
            pass


def _of_statement(node: ast.stmt, place: Change, around: _Around) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.If(test=test) | ast.While(test=test):
            yield from _negated(node, test)
        case ast.AugAssign(op=op):
            yield from _calculated(node, op)
        case ast.Return(value=ast.expr() as value) if around.function is not None:
            if isinstance(value, ast.Tuple) and _SORT_KEY.search(around.function.name):
                yield from _dropped_keys(value)
            if not isinstance(value, ast.Constant):
                for new in _empty_values(around.function.returns):
                    if ast.unparse(new) != ast.unparse(value):
                        yield "return", Change(node, "value", None, new)
        case _:
            pass
    if around.function is not None and _may_be_dropped(node, around.function):
        yield "drop", replace(place, new=ast.copy_location(ast.Pass(), node))


def _calculated(node: ast.AST, op: ast.operator) -> Iterator[tuple[str, Change]]:
    if type(op) in _ARITHMETIC:
        yield "arithmetic", Change(node, "op", None, _ARITHMETIC[type(op)]())


def _negated(node: ast.AST, test: ast.expr) -> Iterator[tuple[str, Change]]:
    """Yield the swap of two branches, unless another operator already inverts the condition."""
    if not isinstance(test, ast.UnaryOp) and not (
        isinstance(test, ast.Compare) and len(test.ops) == 1
    ):
        yield "branch", Change(node, "test", None, ast.UnaryOp(op=ast.Not(), operand=test))


def _dropped_keys(keys: ast.Tuple) -> Iterator[tuple[str, Change]]:
    for index in range(len(keys.elts)):
        yield "sort-key", Change(keys, "elts", None, keys.elts[:index] + keys.elts[index + 1 :])


def _empty_values(returns: ast.expr | None) -> list[ast.expr]:
    """Return plausible wrong values of the annotated return type."""
    found: list[ast.expr] = []
    for part in re.split(r"\s*\|\s*", ast.unparse(returns) if returns is not None else ""):
        kind = part.partition("[")[0]
        found += [ast.parse(text, mode="eval").body for text in _EMPTY.get(kind, ())]
    return found


def _may_be_dropped(node: ast.stmt, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the function is valid without ``node``: no name becomes unbound."""
    match node:
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise():
            return True
        case ast.Continue() | ast.Break():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return function.name != "__init__"
        case ast.Assign(targets=[ast.Name(id=name)]):
            return _is_bound_before(name, node, function)
        case _:
            return False


def _is_bound_before(
    name: str, node: ast.stmt, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> bool:
    for other in ast.walk(function):
        match other:
            case ast.arg(arg=bound) if bound == name:
                return True
            case ast.Name(id=bound, lineno=line) if bound == name and line < node.lineno:
                return True
            case _:
                pass
    return False
