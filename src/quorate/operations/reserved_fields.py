"""Document fields that only Quorate writes: callers may repeat such a field, but not set it.

A workload is started and stopped with the run that names it. So whoever may set the field may start
and stop the workload. The service that admits Jobs writes the field, for the owner of the namespace
(docs/adr/0047).
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.commands import Apply, Command, Submit
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView


def own_field_faults(view: StateView, command: Command) -> list[Refusal]:
    """Return a refusal for each run of ``command`` that sets a field that only Quorate writes.

    An unchanged run sets no field, so a document that a caller has read can be applied again.
    """
    return [
        Refusal(
            code=RefusalCode.INVALID,
            subject=(
                f"Run/{run.name}: spec.workload: only Quorate writes it, for a Job that was "
                "created suspended in a cluster, with the label quorate.dev/owner"
            ),
            remedy="remove it",
        )
        for run in _runs_of(command)
        if run.workload is not None and not _is_recorded(view, run)
    ]


def _runs_of(command: Command) -> Iterable[Run]:
    match command:
        case Submit(run=run):
            return (run,)
        case Apply(specs=specs):
            return (spec for spec in specs if isinstance(spec, Run))
        case _:
            return ()


def _is_recorded(view: StateView, run: Run) -> bool:
    known = view.runs.get(run.name)
    return known is not None and known.spec == run
