"""Applies all documents of a request, or one by its name; changes fields; removes documents."""

from __future__ import annotations

from typing import Final

from quorate.core.commands import Applied, Apply, Removable, Remove
from quorate.documents import KINDS, Bare, render
from quorate.operations.answer_types import Order
from quorate.operations.batch_bounds import check_count, check_widths
from quorate.operations.caller import Role
from quorate.operations.etags import check_match, etag_of, spec_of
from quorate.operations.operation import Operation
from quorate.operations.pool_policies import check_policies
from quorate.operations.request_context import RequestContext
from quorate.operations.request_documents import changed_document, read_trees, specs_of
from quorate.operations.request_keys import is_repetition
from quorate.operations.resources import resource_operations
from quorate.operations.unknown_names import unknown
from quorate.operations.visibility import visible
from quorate.views.exits import CommandError, Exit
from quorate.views.kinds.kind_table import KIND_OF

_KINDS: Final = {kind.lower(): kind for kind in KINDS}


def apply_documents(
    context: RequestContext, asked: resource_operations.Apply, operation: Operation
) -> Order:
    """Return the order to apply all documents of a request, or none of them."""
    del operation
    caller = context.caller
    if caller.role is not Role.ADMIN:
        check_count(len(asked.documents), context.widths_max)
    documents = read_trees(asked.documents, caller.tenant)
    specs = tuple(specs_of(context.recorded, caller, documents))
    check_widths(caller, specs, context.widths_max)
    return _order(context, specs)


def put_document(
    context: RequestContext, asked: resource_operations.PutDocument, operation: Operation
) -> Order:
    """Return the order to apply one document under its name."""
    _check_match(context, operation.about, asked.name, asked.if_match)
    bare = Bare(_KINDS[operation.about], asked.name)
    (document, *more) = read_trees([asked.document], bare=bare)
    if more or document.kind.lower() != operation.about or document.name != asked.name:
        raise CommandError(
            Exit.INVALID,
            f"document: must be one {operation.about} with metadata.name {asked.name!r}",
        )
    return _order(context, (document.spec,))


def patch_document(
    context: RequestContext, asked: resource_operations.PatchDocument, operation: Operation
) -> Order:
    """Return the order to change fields of a document."""
    kind, name = operation.about, asked.name
    spec = _seen(context, kind, name)
    if spec is None:
        raise unknown(context.recorded, context.caller, kind, name)
    _check_match(context, kind, name, asked.if_match)
    document = changed_document(render(spec), asked.assignments, source="--set")
    if document.name != name:
        raise CommandError(Exit.INVALID, "--set metadata.name: a name cannot be changed")
    return _order(context, (document.spec,))


def delete_thing(
    context: RequestContext, asked: resource_operations.DeleteThing, operation: Operation
) -> Order:
    """Return the order to remove a node, a pool or a budget."""
    kind, name = operation.about, asked.name
    if not is_repetition(context, operation, asked):
        if _seen(context, kind, name) is None:
            raise unknown(context.recorded, context.caller, kind, name)
        _check_match(context, kind, name, asked.if_match)
    return Order(command=Remove(Removable(_KINDS[kind]), name, asked.reason))


def _order(context: RequestContext, specs: tuple[Applied, ...]) -> Order:
    """Return the order to apply ``specs``; raise an error for an unknown policy."""
    check_policies(context.recorded, specs)
    return Order(command=Apply(specs))


def put_system(
    context: RequestContext, asked: resource_operations.PutSystem, operation: Operation
) -> Order:
    """Return the order to apply the System document."""
    named = resource_operations.PutDocument(
        name=operation.about, document=asked.document, if_match=asked.if_match
    )
    return put_document(context, named, operation)


def patch_system(
    context: RequestContext, asked: resource_operations.PatchSystem, operation: Operation
) -> Order:
    """Return the order to change fields of the System document."""
    named = resource_operations.PatchDocument(
        name=operation.about, assignments=asked.assignments, if_match=asked.if_match
    )
    return patch_document(context, named, operation)


def _seen(context: RequestContext, kind: str, name: str) -> Applied | None:
    """Return the spec that was applied under ``name``; None if there is none, or it is hidden."""
    spec = spec_of(context.recorded, kind, name)
    if spec is None or not visible(context.recorded, context.caller, KIND_OF[kind], [name]):
        return None
    return spec


def _check_match(context: RequestContext, kind: str, name: str, if_match: str | None) -> None:
    now = "" if _seen(context, kind, name) is None else etag_of(context.recorded, kind, name)
    check_match(kind, name, now, if_match)
