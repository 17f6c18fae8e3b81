"""Document fields that only Quorate writes: callers may repeat their values, but not set them.

Quorate starts and stops a workload together with the run that names it. So a caller that could set
this field could start and stop any workload. The service that admits Jobs writes the field, for the
owner of the namespace (docs/adr/0047).
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.commands import Apply, Command, Submit
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView


def own_field_faults(view: StateView, command: Command) -> list[Refusal]:
    """Return a refusal for each run of ``command`` that sets a field which only Quorate writes.

    A run that is unchanged sets no field, so a caller can apply a document again that it has read.
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
