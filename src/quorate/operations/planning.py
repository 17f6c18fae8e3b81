"""When runs start, whether submitted or not, and what holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from quorate.answers.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.answers.explanation import explanation_lines, explanation_tree
from quorate.answers.failures import refused
from quorate.answers.forecasts import forecast_lines, forecast_tree
from quorate.answers.timeline import moves_of
from quorate.answers.veil import Veil
from quorate.answers.veiled import veiled_explanation, veiled_forecast
from quorate.core.commands import Submit
from quorate.core.explain import Explanation, explain
from quorate.core.plan import Forecast, foretell, foretell_new
from quorate.model.specs import Run
from quorate.operations import asked_ledger as ask
from quorate.operations.answer import Answer
from quorate.operations.desk import Desk
from quorate.operations.documents import RUNS, check_only_runs, read_trees, specs_of
from quorate.operations.operation import Operation
from quorate.operations.permission import check_command
from quorate.operations.visible_events import Sight


def plan_run(desk: Desk, asked: ask.AboutRun, operation: Operation) -> Answer:
    """Return when a run that is there starts, and what that rests on."""
    del operation
    name = asked.run.removeprefix("run/")
    if not Sight(desk.recorded, desk.caller).sees_run(name):
        raise CommandError(
            Exit.REFUSED,
            f"there is no run {name!r}; list them: quorate get runs; "
            "for one that is not submitted: quorate plan -f FILE --dry-run",
            fault=UNKNOWN_NAME,
        )
    found, prefix = forecast_of(desk, name), desk.prefix
    return Answer(
        tree=lambda: forecast_tree(found, prefix),
        lines=lambda wide: forecast_lines(found, prefix, show_wide=wide),
        notes=desk.aside(),
    )


def forecast_of(desk: Desk, run: str) -> Forecast:
    """Return the forecast of a run that is there."""
    view = desk.recorded
    found = foretell(
        view,
        view.runs[run].spec,
        desk.now_ms,
        has_executor=desk.has_executor,
        outlook=desk.outlook,
    )
    assert isinstance(found, Forecast), found
    return veiled_forecast(found, desk.moment.veil)


def plan_runs(desk: Desk, asked: ask.PlanRuns, operation: Operation) -> Answer:
    """Return when runs would start, as if they were submitted now, in this order."""
    del operation
    documents = read_trees(asked.documents, desk.caller.tenant, bare=RUNS)
    check_only_runs(documents)
    specs = specs_of(desk.recorded, desk.caller, documents)
    runs = [spec for spec in specs if isinstance(spec, Run)]
    if not desk.caller.oversees:
        # What they could not submit would tell them about the money and runs of others.
        for run in runs:
            check_command(desk.recorded, desk.caller, Submit(run))
    found = foretell_new(desk.recorded, runs, desk.now_ms, has_executor=desk.has_executor)
    veil = desk.moment.veil
    if isinstance(found, tuple):
        raise refused([veil.refusal(each) for each in found])
    veil = Veil(veil.view, veil.seen, frozenset(run.name for run in runs))
    return _planned(desk, [veiled_forecast(each, veil) for each in found], asked.source)


def _planned(desk: Desk, found: Sequence[Forecast], source: str) -> Answer:
    """Return the forecasts of runs that are not submitted; ``source`` is the file they are in."""

    def tree() -> Any:
        trees = [forecast_tree(each, desk.prefix, source=source) for each in found]
        return trees if len(trees) > 1 else trees[0]

    def lines(wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        told: list[str] = []
        for each in found:
            told += [""] if told else []
            told += forecast_lines(each, desk.prefix, source=source, show_wide=wide)
        return [*told, "dry run: nothing was recorded"]

    return Answer(tree=tree, lines=lines, notes=desk.aside())


def explain_run(desk: Desk, asked: ask.AboutRun, operation: Operation) -> Answer:
    """Return what holds a run, and what would start it now."""
    del operation
    name, moment = asked.run.removeprefix("run/"), desk.moment
    if not Sight(desk.recorded, desk.caller).sees_run(name):
        raise CommandError(
            Exit.REFUSED,
            f"no run {name!r}; list them: quorate get runs",
            fault=UNKNOWN_NAME,
        )
    explained = explain(desk.recorded, name, desk.now_ms, outlook=desk.outlook)
    assert isinstance(explained, Explanation), explained
    found = veiled_explanation(explained, moment.veil)

    def lines(wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        del wide
        moves = []
        if found.reservation is not None and found.reservation.cause:
            made = found.reservation.made.reservation
            moves = [
                replace(each, cause=moment.veil.cause(each.cause))
                for each in moves_of(desk.store, made)
            ]
        return explanation_lines(found, moment.now_ms, desk.prefix, moves)

    return Answer(
        tree=lambda: explanation_tree(found, moment, desk.prefix),
        lines=lines,
        notes=tuple(desk.notes),
    )
