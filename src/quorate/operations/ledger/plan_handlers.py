"""Forecasts and explanations: when runs start, submitted or not, and why runs wait."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from quorate.core.commands import Submit
from quorate.core.explain.explanation import Explanation, explain
from quorate.core.explain.likely_starts import likely_starts
from quorate.core.explain.start_plan import Forecast, foretell, foretell_new
from quorate.model.specs import Run
from quorate.operations.answer_types import Answer
from quorate.operations.ledger import plan_operations
from quorate.operations.operation import Operation
from quorate.operations.permission import check_command
from quorate.operations.request_context import RequestContext
from quorate.operations.request_documents import RUNS, check_only_runs, read_trees, specs_of
from quorate.operations.unknown_names import check_run, unknown
from quorate.operations.visibility import seen_by, sees_owner
from quorate.views.exits import CommandError, Exit
from quorate.views.failures import refused
from quorate.views.redaction.redacted_answers import redacted_explanation, redacted_forecast
from quorate.views.redaction.redaction import Redaction
from quorate.views.runs.event_text import moves_of
from quorate.views.runs.explanation_view import explanation_lines, explanation_tree
from quorate.views.runs.forecast_view import forecast_lines, forecast_tree
from quorate.views.runs.likely_view import starts_lines, starts_tree
from quorate.views.runs.wait_view import wait_of


def plan_run(
    context: RequestContext, asked: plan_operations.AboutRun, operation: Operation
) -> Answer:
    """Return when a submitted run starts, and the conditions of that start."""
    del operation
    name = asked.run.removeprefix("run/")
    check_run(context, name, more="for a run that is not submitted: quorate plan -f FILE --dry-run")
    found, prefix = forecast_of(context, name, is_exact=asked.exact), context.prefix
    return Answer(
        tree=lambda: forecast_tree(found, prefix),
        lines=lambda wide: forecast_lines(found, prefix, show_wide=wide),
        notes=context.aside(),
    )


def forecast_of(context: RequestContext, run: str, *, is_exact: bool = False) -> Forecast:
    """Return the forecast of a submitted run; if ``is_exact``, even beyond the planning depth."""
    view = context.recorded
    found = foretell(
        view,
        view.runs[run].spec,
        context.now_ms,
        has_executor=context.has_executor,
        outlook=context.outlook,
        is_exact=is_exact,
    )
    assert isinstance(found, Forecast), found
    return redacted_forecast(found, context.moment.redaction)


def queue_starts(
    context: RequestContext, asked: plan_operations.QueueStarts, operation: Operation
) -> Answer:
    """Return when the first runs of the queue start, with P50, P90 and odds."""
    del operation
    view, caller, outlook = context.recorded, context.caller, context.outlook
    if asked.owner is not None and not (
        asked.owner in view.owners and sees_owner(view, caller, asked.owner)
    ):
        raise unknown(view, caller, "owner", asked.owner)
    seen = seen_by(view, caller)
    owners = ((name, view.runs[name].spec.owner) for name in outlook.order)
    mine = (
        name
        for name, owner in owners
        if (seen is None or owner in seen) and asked.owner in (None, owner)
    )
    found = list(likely_starts(outlook, list(islice(mine, asked.limit))))
    redaction = context.moment.redaction
    return Answer(
        tree=lambda: starts_tree(found, redaction, outlook.now_ms),
        lines=lambda _: starts_lines(found, redaction, outlook.now_ms),
        notes=context.aside(),
    )


def plan_runs(
    context: RequestContext, asked: plan_operations.PlanRuns, operation: Operation
) -> Answer:
    """Return when runs would start if they were submitted now, in the order of the request."""
    del operation
    if asked.exact and len(asked.documents) > 1:
        raise CommandError(
            Exit.INVALID,
            f"exact is for one run, but documents has {len(asked.documents)}; plan each of them "
            "in a request of its own, or leave exact out",
        )
    documents = read_trees(asked.documents, context.caller.tenant, bare=RUNS)
    check_only_runs(documents)
    specs = specs_of(context.recorded, context.caller, documents)
    runs = [spec for spec in specs if isinstance(spec, Run)]
    most = 1 if asked.exact else plan_operations.PLANNED_MAX
    if len(runs) > most:
        raise CommandError(
            Exit.INVALID,
            f"documents: have {len(runs)} tasks and runs, but one request plans {most} at most; "
            "plan an array of fewer tasks, such as tasks: 0-3",
        )
    if not context.caller.oversees:
        # If the caller may not submit a run, the run's forecast would reveal money and runs of
        # others.
        for run in runs:
            check_command(context.recorded, context.caller, Submit(run))
    found = foretell_new(
        context.recorded,
        runs,
        context.now_ms,
        has_executor=context.has_executor,
        is_exact=asked.exact,
    )
    redaction = context.moment.redaction
    if isinstance(found, tuple):
        raise refused([redaction.refusal(each) for each in found])
    redaction = Redaction(redaction.view, redaction.seen, frozenset(run.name for run in runs))
    return _planned(context, [redacted_forecast(each, redaction) for each in found], asked.source)


def _planned(context: RequestContext, found: Sequence[Forecast], source: str) -> Answer:
    """Return the forecasts of runs that are not submitted. ``source`` names their file."""

    def tree() -> Any:
        trees = [forecast_tree(each, context.prefix, source=source) for each in found]
        return trees if len(trees) > 1 else trees[0]

    def lines(wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        told: list[str] = []
        for each in found:
            told += [""] if told else []
            told += forecast_lines(each, context.prefix, source=source, show_wide=wide)
        return [*told, "dry run: nothing was recorded"]

    return Answer(tree=tree, lines=lines, notes=context.aside())


def explain_run(
    context: RequestContext, asked: plan_operations.AboutRun, operation: Operation
) -> Answer:
    """Return why a run waits, and which changes would start the run now."""
    del operation
    name, moment = asked.run.removeprefix("run/"), context.moment
    check_run(context, name)
    explained = explain(
        context.recorded, name, context.now_ms, outlook=context.outlook, is_exact=asked.exact
    )
    assert isinstance(explained, Explanation), explained
    found = redacted_explanation(explained, moment.redaction)
    record = context.recorded.runs[name]
    wait = wait_of(context.store, record, upto_seq=moment.seq, now_ms=moment.now_ms)

    def lines(wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        del wide
        moves = []
        if found.reservation is not None and found.reservation.cause:
            made = found.reservation.made.reservation
            moves = [
                replace(each, cause=moment.redaction.cause(each.cause))
                for each in moves_of(context.store, made)
            ]
        return explanation_lines(found, moment.now_ms, context.prefix, wait, moves)

    return Answer(
        tree=lambda: explanation_tree(found, moment, context.prefix, wait),
        lines=lines,
        notes=tuple(context.notes),
    )
