"""Submits, ends and shrinks runs."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from quorate.core.commands import Apply, Cancel, CancelTasks, Complete, Fail, Shrink, Submit
from quorate.core.lifecycle.elastic import steps_held
from quorate.documents import Document, render
from quorate.model.mail_address import domain_of
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView
from quorate.model.task_arrays import alone, document_of
from quorate.operations.answer_types import Order
from quorate.operations.array_names import named, sees_array, with_tasks
from quorate.operations.batch_bounds import check_count, check_widths
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.request_documents import (
    RUNS,
    changed_document,
    check_only_runs,
    read_trees,
    specs_of,
)
from quorate.operations.resources import run_operations
from quorate.operations.unknown_names import check_run, check_run_owners
from quorate.views.exits import CommandError, Exit
from quorate.views.hints import nearest_name
from quorate.views.word_forms import gpus

_ENDS: Final[dict[str, type[Complete | Fail]]] = {"complete": Complete, "fail": Fail}


def submit_run(
    context: RequestContext, asked: run_operations.SubmitRun, operation: Operation
) -> Order:
    """Return the order to accept a run: a new document, or a changed copy of an existing run."""
    del operation
    if (asked.document is None) == (asked.like is None):
        raise CommandError(Exit.USAGE, "give either document or like")
    if (asked.like is None) != (asked.name is None):
        raise CommandError(Exit.USAGE, "give both like and name, or neither")
    if asked.document is not None:
        documents = read_trees([asked.document], context.caller.tenant, bare=RUNS)
    else:
        assert asked.like is not None
        assert asked.name is not None
        documents = [_copy(context, asked.like, asked.name)]
    check_only_runs(documents)
    if len(documents) != 1:
        raise CommandError(Exit.INVALID, "document: must be one Run; for several: submit-runs")
    if asked.assignments:
        documents = [_changed(documents[0], asked.assignments)]
    return _submitted(context, _runs_of(context, documents))


def submit_runs(
    context: RequestContext, asked: run_operations.SubmitRuns, operation: Operation
) -> Order:
    """Return the order to accept runs together; for a single run, that of ``submit_run``."""
    del operation
    check_count(len(asked.documents), context.widths_max)
    documents = read_trees(asked.documents, context.caller.tenant, bare=RUNS)
    check_only_runs(documents)
    return _submitted(context, _runs_of(context, documents))


def _submitted(context: RequestContext, runs: list[Run]) -> Order:
    """Return the order to accept ``runs``, with the tasks of arrays."""
    check_widths(context.caller, runs, context.widths_max)
    command = Submit(runs[0]) if len(runs) == 1 else Apply(tuple(runs))
    notes = _flavor_notes(context.recorded, runs) + _mail_notes(context.mail_domains, runs)
    return Order(command=command, notes=notes)


def _mail_notes(domains: tuple[str, ...] | None, runs: list[Run]) -> tuple[str, ...]:
    """Return a warning if runs ask for mail that the service does not send.

    ``domains`` are the domains to which the service sends mail. It is None without a service.
    """
    wanted = dict.fromkeys(domain_of(run.mail.to) for run in runs if run.mail is not None)
    if domains is None or not wanted:
        return ()
    if not domains:
        text = "this service sends no mail of runs; see the notices with: quorate notices"
        return (f"warning: mail: {text}, or have its operator set mail.server and mail.domains",)
    return tuple(
        f"warning: mail: this service sends no mail to addresses of {domain}, only to addresses "
        f"of: {', '.join(domains)}"
        for domain in wanted
        if domain not in domains
    )


def _flavor_notes(view: StateView, runs: list[Run]) -> tuple[str, ...]:
    """Return a warning for each run's list of flavors if no node has any of these flavors."""
    there = view.flavors()
    wanted = dict.fromkeys(run.flavors for run in runs if not set(run.flavors) & set(there))
    if not there:
        return ()
    by_letters = {flavor.lower(): flavor for flavor in there}
    notes = []
    for flavors in wanted:
        near = (nearest_name(each.lower(), by_letters) for each in flavors)
        meant = next((by_letters[each] for each in near if each is not None), None)
        hint = "" if meant is None else f"did you mean {meant}? "
        notes.append(
            f"warning: no node has flavor {' or '.join(flavors)}; {hint}nodes have: "
            f"{', '.join(there)}"
        )
    return tuple(notes)


def _runs_of(context: RequestContext, documents: list[Document]) -> list[Run]:
    specs = specs_of(context.recorded, context.caller, documents)
    runs = [spec for spec in specs if isinstance(spec, Run)]
    check_run_owners(context, runs)
    return runs


def _copy(context: RequestContext, like: str, name: str) -> Document:
    """Return the run ``like`` as a document with the name ``name``, without its nonce and user.

    The copy of a task is a single run, and the copy of an array is another array.
    """
    view: StateView = context.recorded
    like = named(like)[0]
    if sees_array(view, context.caller, like):
        spec = document_of(view.runs[view.arrays[like].first].spec)
        assert spec.array is not None, spec
        spec = replace(spec, array=replace(spec.array, name=name))
    else:
        check_run(context, like)
        spec = alone(view.runs[like].spec)
    spec = replace(spec, name=name, nonce="", user="")
    return _changed(Document(kind="Run", spec=spec, line=None), ())


def _changed(document: Document, assignments: tuple[str, ...]) -> Document:
    """Return ``document`` with fields set, validated again as a whole."""
    tree = render(document.spec)
    if document.generate_name is not None:
        tree["metadata"] = {"generateName": document.generate_name}
    return changed_document(tree, assignments, source="--set" if assignments else "--like")


def end_run(context: RequestContext, asked: run_operations.EndRun, operation: Operation) -> Order:
    """Return the order to end a run with the outcome of the operation."""
    name = asked.run.removeprefix("run/")
    if operation.about == "cancel":
        now = isinstance(asked, run_operations.CancelRun) and asked.now
        names = with_tasks(context.recorded, context.caller, (name,), keep_arrays=False)
        for each in names:
            check_run(context, each)
        if len(names) > 1:
            return Order(command=CancelTasks(names, asked.note, now=now))
        return Order(command=Cancel(names[0], asked.note, now=now))
    check_run(context, name)
    return Order(command=_ENDS[operation.about](name, asked.note))


def shrink_run(
    context: RequestContext, asked: run_operations.ShrinkRun, operation: Operation
) -> Order:
    """Return the order to shrink a malleable run."""
    del operation
    if (asked.gpus is None) == (asked.by is None):
        raise CommandError(Exit.USAGE, "give either gpus or by")
    name = asked.run.removeprefix("run/")
    check_run(context, name)
    width = _width(context.recorded, name)
    wanted = asked.gpus if asked.gpus is not None else width - (asked.by or 0)
    return Order(
        command=Shrink(name, wanted), unchanged=f"run/{name} works on {gpus(width)} already"
    )


def _width(view: StateView, run: str) -> int:
    """Return the width of a malleable run, and 0 for any other run.

    A run that is not malleable cannot shrink, so its request will be refused.
    """
    record = view.runs.get(run)
    elastic = None if record is None else record.spec.malleable
    if record is None or elastic is None:
        return 0
    return elastic.gpus_min + len(steps_held(view, record)) * elastic.gpus_step
