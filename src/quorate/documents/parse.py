"""Parses and checks documents: returns specs or problems.

The parser reports every fault of every document at once. Each fault has a path and a remedy, and
its line if the line is known. The parser raises no exception for a faulty document. If one document
of a text is faulty, all documents of the text are refused, so that a text is never applied in part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from quorate.documents.bare import HEAD, Bare, has_head, with_head, without_head
from quorate.documents.budget_document import read_budget
from quorate.documents.document_problem import ROOT, Path, Problem, path_text, quoted, shown
from quorate.documents.field_reader import At, Fault, Fields, as_it_is, fields_of, nearest
from quorate.documents.head import (
    BUDGET,
    NODE,
    OWNER,
    POOL,
    RESERVATION,
    RUN,
    SYSTEM,
    SYSTEM_NAME,
    Head,
    read_api_version,
    read_head,
)
from quorate.documents.located_tree import Position, SourceDocument, Unreadable, place_of
from quorate.documents.node_document import read_node
from quorate.documents.owner_document import read_owner
from quorate.documents.pool_document import read_pool, read_system
from quorate.documents.reservation_document import check_reservation
from quorate.documents.run_document_reader import read_run
from quorate.documents.text_source import read_source
from quorate.documents.values import is_name
from quorate.model.specs import Budget, Node, Owner, Pool, Run, System

Declared = Node | Owner | Budget | Pool | System | Run

_READERS: Final[Mapping[str, Callable[[object, At, Head], Declared | None]]] = {
    NODE: read_node,
    OWNER: read_owner,
    BUDGET: read_budget,
    POOL: read_pool,
    SYSTEM: read_system,
    RUN: read_run,
}
KINDS: Final = tuple(_READERS)
"""The kinds of document that can be applied."""

# Quorate prints a status with a document. The printed document can be applied; the status is
# dropped.
_TOP: Final = HEAD
_TOP_HINTS: Final[Mapping[str, str]] = {}
_LIST: Final = "List"
_LIST_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "items"})
_KIND_HINTS: Final = {
    "Tenant": "a tenant is an Owner here",
    "Job": "a job is a Run here",
    "Allocation": "an allocation is a Run here",
    _LIST: "a List has the documents under items, and no List among them",
    "Lease": "leases are made by Quorate; submit a Run",
}


class Document(Struct, frozen=True, kw_only=True):
    """One valid document. Its spec has an empty name if Quorate has to generate the name."""

    kind: str
    spec: Declared
    line: int | None
    generate_name: str | None = None

    @property
    def name(self) -> str:
        """The name of the resource; empty if Quorate has to generate it."""
        return SYSTEM_NAME if isinstance(self.spec, System) else self.spec.name


class Documents(Struct, frozen=True, kw_only=True):
    """The documents of a valid text, in the order of the text."""

    items: tuple[Document, ...]


class Invalid(Struct, frozen=True, kw_only=True):
    """All problems of a text; never empty."""

    problems: tuple[Problem, ...]


Parsed = Documents | Invalid


class _Judged(Struct, frozen=True, kw_only=True):
    """One checked document. ``spec`` may be used only if ``faults`` is empty."""

    kind: str | None
    name: str | None
    spec: Declared | None
    generate_name: str | None
    faults: list[Fault]


def parse_documents(
    text: str | bytes, *, source: str, needs_owner: bool = True, bare: Bare | None = None
) -> Parsed:
    """Return the documents of ``text``, or every problem; ``source`` names the text in problems.

    Bytes must be UTF-8. A ``List``, as ``get`` prints it, is read as the documents in it. Two
    documents of the same kind and name are refused, except runs with a generated name. If
    ``needs_owner`` is false, a run may leave out its owner; the owner in its spec is then empty.
    ``bare`` is the kind of a document without apiVersion and kind.
    """
    read = read_source(text)
    if isinstance(read, Unreadable):
        return Invalid(problems=(unreadable(read, source),))
    items: list[Document] = []
    problems: list[Problem] = []
    firsts: dict[tuple[str, str], Position] = {}
    for index, document in enumerate(unpacked(read)):
        judged = _judge(document.tree, None, lenient=False, needs_owner=needs_owner, bare=bare)
        _refuse_second(judged, firsts, document.start)
        if judged.faults:
            problems.extend(_located(judged, document, index, source))
        else:
            assert judged.kind is not None, judged
            assert judged.spec is not None, judged
            items.append(
                Document(
                    kind=judged.kind,
                    spec=judged.spec,
                    line=document.start.line,
                    generate_name=judged.generate_name,
                )
            )
    return Invalid(problems=tuple(problems)) if problems else Documents(items=tuple(items))


def lines_of(text: str | bytes) -> list[dict[str, int]]:
    """Return a mapping for each document of ``text``: from the path of a value to its line.

    The empty path is that of the document itself. The result is empty if ``text`` cannot be read.
    """
    read = read_source(text)
    if isinstance(read, Unreadable):
        return []
    return [
        {"": document.start.line}
        | {path_text(path): place.line for path, place in document.places().items()}
        for document in unpacked(read)
    ]


def unpacked(read: Iterable[SourceDocument]) -> Iterator[SourceDocument]:
    """Yield the documents of ``read``; instead of a ``List``, yield its items one by one."""
    for document in read:
        tree = document.tree
        if (
            isinstance(tree, dict)
            and tree.get("kind") == _LIST
            and isinstance(tree.get("items"), list)
            and tree.keys() <= _LIST_FIELDS
        ):
            for number, item in enumerate(tree["items"]):
                yield SourceDocument(
                    tree=item, start=document.start, places=_places_below(document, number)
                )
        else:
            yield document


def _places_below(document: SourceDocument, number: int) -> Callable[[], Mapping[Path, Position]]:
    """Return a function that returns the positions of the values in item ``number`` of a List."""

    def places() -> Mapping[Path, Position]:
        inside = ("items", number)
        return {path[2:]: place for path, place in document.places().items() if path[:2] == inside}

    return places


def parse_tree(  # noqa: PLR0913 - two values, and how they are read
    kind: str | None,
    tree: object,
    *,
    source: str = "input",
    lenient: bool = False,
    needs_owner: bool = True,
    bare: Bare | None = None,
) -> Parsed:
    """Return the document in the decoded object ``tree``, or its problems.

    If ``kind`` is None, the document must name its kind. ``lenient`` is for ``calc``, which also
    reads manifests of Jobtree: names and a run's owner may be left out, and namespaces, labels and
    a budget's parents are ignored. A Reservation is checked but has no spec, so the result for a
    valid Reservation is empty. ``parse_documents`` explains ``needs_owner`` and ``bare``.
    """
    judged = _judge(tree, kind, lenient=lenient, needs_owner=needs_owner, bare=bare)
    if judged.faults:
        return Invalid(
            problems=tuple(_problem(fault, judged, 0, source, None) for fault in judged.faults)
        )
    if judged.spec is None:
        assert judged.kind == RESERVATION, judged
        return Documents(items=())
    assert judged.kind is not None, judged
    document = Document(
        kind=judged.kind, spec=judged.spec, line=None, generate_name=judged.generate_name
    )
    return Documents(items=(document,))


def _judge(
    tree: object, kind: str | None, *, lenient: bool, needs_owner: bool, bare: Bare | None
) -> _Judged:
    if bare is None or not isinstance(tree, dict):
        return _judge_whole(tree, kind, lenient=lenient, needs_owner=needs_owner)
    whole = with_head(tree, bare)
    judged = _judge_whole(whole, kind, lenient=lenient, needs_owner=needs_owner)
    if judged.faults and not has_head(tree):
        judged.faults[:] = map(without_head, judged.faults)
    return judged


def _judge_whole(tree: object, kind: str | None, *, lenient: bool, needs_owner: bool) -> _Judged:
    faults: list[Fault] = []
    top_at = At((), faults)
    top = fields_of(tree, top_at, _TOP, _TOP_HINTS)
    if top is None:
        return _Judged(kind=kind, name=None, spec=None, generate_name=None, faults=faults)
    # If the caller gives the kind, its own interface has a version, and the tree needs none.
    read_api_version(top, lenient=lenient or kind is not None)
    found_kind = _kind(top, kind, check_only=lenient or kind is not None)
    if found_kind is None:
        return _Judged(kind=None, name=None, spec=None, generate_name=None, faults=faults)
    head = read_head(top, found_kind, lenient=lenient, needs_owner=needs_owner)
    spec = _spec(top, found_kind, head)
    assert spec is not None or faults or found_kind == RESERVATION, tree
    return _Judged(
        kind=found_kind,
        name=head.name or head.generate_name,
        spec=spec,
        generate_name=head.generate_name,
        faults=faults,
    )


def _kind(top: Fields, expected: str | None, *, check_only: bool) -> str | None:
    """Return the kind of the document; report a fault and return None if it is not allowed here."""
    at = top.at("kind")
    if "kind" not in top and expected is None:
        at.fault("is required", f"add kind: one of {', '.join(KINDS)}")
        return None
    kind: object = top.maybe("kind", as_it_is) if "kind" in top else expected
    if isinstance(kind, str) and kind == (expected or kind):
        if kind in _READERS or (kind == RESERVATION and check_only):
            return kind
        at.fault(*_refused_kind(kind))
    elif kind is not None and expected is not None:
        at.fault(f"must be {expected} here, got {shown(kind)}", f"write kind: {expected}")
    elif kind is not None:
        at.fault(f"must be text, got {shown(kind)}", "name the kind of document")
    return None


def _refused_kind(kind: str) -> tuple[str, str]:
    if kind == RESERVATION:
        return (
            "must not be Reservation: reservations are made by Quorate",
            "submit a Run; it gets a reservation when it cannot start",
        )
    near = nearest(kind, KINDS)
    remedy = f"did you mean {near}?" if near else "use one of these kinds"
    return (
        f"must be one of {', '.join(KINDS)}, got {shown(kind)}",
        _KIND_HINTS.get(kind, remedy),
    )


def _spec(top: Fields, kind: str, head: Head) -> Declared | None:
    # A missing spec is read as an empty one, so that each missing field is reported.
    at = top.at("spec")
    nothing: object = {}
    value = top.optional("spec", as_it_is, nothing)
    if kind == RESERVATION:
        check_reservation(value, at)
        return None
    return _READERS[kind](value, at, head)


def _refuse_second(
    judged: _Judged, firsts: dict[tuple[str, str], Position], start: Position
) -> None:
    """Add a fault if the text already has a document with this kind and name."""
    if judged.kind is None or judged.generate_name is not None:
        return
    name = SYSTEM_NAME if judged.kind == SYSTEM else judged.name
    if not name:
        return
    first = firsts.setdefault((judged.kind, name), start)
    if first is not start:
        At(("metadata", "name"), judged.faults).fault(
            f"{quoted(name)} is also the name of another {judged.kind}, on line {first.line}",
            "give each document its own name, or remove one of the two",
        )


def _located(judged: _Judged, document: SourceDocument, index: int, source: str) -> list[Problem]:
    """Return the problems of one document in the order of their lines."""
    places = document.places()
    found = [
        _problem(fault, judged, index, source, place_of(fault.path, places, document.start))
        for fault in judged.faults
    ]
    return sorted(found, key=lambda problem: problem.line or 0)


def _problem(
    fault: Fault, judged: _Judged, index: int, source: str, position: Position | None
) -> Problem:
    return Problem(
        source=source,
        document_index=index,
        kind=judged.kind,
        name=judged.name if is_name(judged.name) else None,
        path=path_text(fault.path) or ROOT,
        message=fault.message,
        remedy=fault.remedy,
        line=None if position is None else position.line,
        column=None if position is None else position.column,
    )


def unreadable(read: Unreadable, source: str) -> Problem:
    """Return the problem of a text of ``source`` that cannot be read."""
    return Problem(
        source=source,
        document_index=read.document_index,
        kind=None,
        name=None,
        path="",
        message=read.message,
        remedy=read.remedy,
        line=read.line,
        column=read.column,
    )
