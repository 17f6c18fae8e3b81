"""Errors for names that do not exist, with the nearest name that the caller may see.

The error for a resource that the caller may not see is the same, so that it does not reveal whether
the resource exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.state.run_table import RunQuery
from quorate.model.state.state_view import StateView
from quorate.model.task_arrays import indexes_of, indexes_text
from quorate.operations.array_names import sees_array
from quorate.operations.caller import Caller
from quorate.operations.request_context import RequestContext
from quorate.operations.visibility import seen_by, sees_owner, tenants_of, visible
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.failures import refused
from quorate.views.hints import nearest_name
from quorate.views.kinds.kind_table import KIND_OF

HINTED_MAX: Final = 10_000
"""The most runs, last ones first, with whose names an unknown name is compared."""


def unknown(view: StateView, caller: Caller, kind: str, name: str, more: str = "") -> CommandError:
    """Return the error that there is no ``kind`` with the name ``name``.

    The error suggests the nearest name, or else the command that lists the names. ``more`` is added
    to the text in both cases.
    """
    known = _known(view, caller, kind)
    tasks = array_tasks(view, caller, name) if kind == "run" else None
    if tasks is not None:
        told = f"there is no run {name!r}; {tasks}{more and f' ({more})'}"
        return CommandError(Exit.REFUSED, told, fault=UNKNOWN_NAME)
    near = nearest_name(name, known) or _begun(name, known)
    hint = f"did you mean {near!r}?" if near is not None else f"list them: quorate get {kind}s"
    told = f"there is no {kind} {name!r}; {hint}{more and f' ({more})'}"
    return CommandError(Exit.REFUSED, told, fault=UNKNOWN_NAME)


def array_tasks(view: StateView, caller: Caller, name: str) -> str | None:
    """Return the text that lists the tasks of an array, if ``name`` looks like one of its tasks.

    The result is None if ``name`` does not look like a task of an array that the caller may see.
    """
    array, underscore, index = name.rpartition("_")
    if not (underscore and index.isdecimal() and sees_array(view, caller, array)):
        return None
    spec = view.runs[view.arrays[array].first].spec
    assert spec.array is not None, spec
    return f"array {array!r} has the tasks {indexes_text(indexes_of(spec.array.tasks))}"


def _begun(name: str, known: Collection[str]) -> str | None:
    """Return the first of ``known`` that begins with ``name`` and a dash, as generated names do."""
    return next((each for each in known if each.startswith(f"{name}-")), None)


def check_run(context: RequestContext, name: str, kind: str = "run", more: str = "") -> None:
    """Raise ``CommandError`` unless there is a run ``name`` that the caller may see."""
    view, caller = context.recorded, context.caller
    record = view.runs.get(name)
    if record is None and sees_array(view, caller, name):
        raise _is_array(view, name)
    if record is None or not sees_owner(view, caller, record.spec.owner):
        raise unknown(view, caller, kind, name, more)


def _is_array(view: StateView, name: str) -> CommandError:
    """Return the error for the name of an array where the name of one run is needed."""
    spec = view.runs[view.arrays[name].first].spec
    assert spec.array is not None, spec
    return CommandError(
        Exit.REFUSED,
        f"{name!r} is an array, {name}[{spec.array.tasks}]; name one task, such as {spec.name}",
        fault=UNKNOWN_NAME,
    )


def check_run_owners(context: RequestContext, runs: Iterable[Run]) -> None:
    """Raise ``CommandError`` if a run's owner does not exist, but one of a similar name does.

    If no owner has a similar name, there is no error here: the decision reports all faults of a run
    together.
    """
    view, caller = context.recorded, context.caller
    for run in runs:
        if run.owner in view.owners:
            continue
        near = nearest_name(run.owner, _known(view, caller, "owner"))
        if near is not None:
            subject = f"Run/{run.name}: spec.owner: there is no owner {run.owner!r}"
            raise refused(
                [
                    Refusal(
                        code=RefusalCode.UNKNOWN_NAME,
                        subject=subject,
                        remedy=f"did you mean {near!r}?",
                    )
                ]
            )


def check_node(context: RequestContext, name: str) -> None:
    """Raise ``CommandError`` unless there is a node ``name``."""
    if name not in context.recorded.nodes:
        raise unknown(context.recorded, context.caller, "node", name)


def newest_runs(view: StateView, caller: Caller, kind: str) -> list[str]:
    """Return the last runs, or claims, that ``caller`` may see; newest first."""
    query = RunQuery(
        owners=seen_by(view, caller),
        is_claim=True if kind == "claim" else None,
        is_newest_first=True,
    )
    return list(islice(view.runs.listed(query), HINTED_MAX))


def _known(view: StateView, caller: Caller, kind: str) -> Collection[str]:
    """Return the names of ``kind`` with which an unknown name is compared."""
    match kind:
        case "run" | "claim":
            return newest_runs(view, caller, kind)
        case "owner":
            return view.owners if caller.oversees else tenants_of(view, caller)
        case "node":
            return view.nodes
        case "pool":
            return view.pools
        case _:
            assert kind == "budget", kind
            return visible(view, caller, KIND_OF[kind], list(view.budgets))
