"""The differences that a what-if found, and the score of forecasts, as lines or trees. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import to_builtins

from quorate.documents.times import time_text
from quorate.model.closed_words import counted
from quorate.sim.outcome import SimulatedRun
from quorate.sim.report.forecast_score import ForecastScore
from quorate.sim.whatif.differences import Differences, OwnerDifference, RunDifference
from quorate.sim.whatif.fork import Forked
from quorate.sim.whatif.unpaid_gpus import Unpaid
from quorate.views.reports.report_forms import metrics_tree, percent, seconds
from quorate.views.table import Column, pairs, right, table
from quorate.views.word_forms import countdown, hours

RUNS_MAX: Final = 20
"""How many runs are listed for people, at most; programs and the wide table get all runs."""


def whatif_lines(
    found: Differences,
    forked: Forked,
    unsure: int,
    unpaid: Sequence[Unpaid] = (),
    *,
    show_wide: bool = False,
) -> list[str]:
    """Return the differences: in total, by owner, and of the runs with the largest differences.

    ``unsure`` is the number of runs that a fork without a change does not reproduce.
    """
    lines = [*_notes(forked, unsure), *map(_unpaid, unpaid)]
    if found.are_none:
        return [*lines, "no difference"]
    return [*lines, *_tables(found, show_wide=show_wide)]


def identity_lines(
    found: Differences,
    forked: Forked,
    events: int,
    differs: int | None,
    *,
    show_wide: bool = False,
) -> list[str]:
    """Return whether a fork without a change reproduces the ledger, which has ``events`` events.

    ``differs`` is the sequence number of the first event that differs; None if all are equal.
    """
    if differs is None:
        return [f"no change: the fork reproduces all {events} events of the ledger exactly"]
    lines = _notes(forked, 0)
    what = f"the fork does not reproduce the ledger: event {differs} of {events} differs"
    if found.are_none:
        return [*lines, f"no change: {what}, but every run has the same outcome"]
    told = f"no change: {what}; with another outcome: {counted(len(found.runs), 'run')}"
    return [*lines, told, *_tables(found, show_wide=show_wide)]


def _tables(found: Differences, *, show_wide: bool) -> list[str]:
    """Return the tables of figures, of owners and of runs."""
    was, now = found.was, found.now
    rows = [
        ("utilisation", percent(was.utilisation), percent(now.utilisation)),
        ("runs completed", str(was.completed), str(now.completed)),
        ("completion time, mean", *(_mean(each.jct_s) for each in (was, now))),
        ("wait, mean", *(_mean(each.wait_s) for each in (was, now))),
        ("preemptions", str(was.preemptions), str(now.preemptions)),
    ]
    columns: tuple[Column, ...] = (Column("FIGURE"), right("WAS"), right("WOULD BE"))
    lines = table(columns, rows).splitlines()
    columns = (
        Column("OWNER"), right("RUNS"), right("CHANGED"), right("COMPLETED"),
        right("GPU-HOURS"), right("WAITED"),
    )  # fmt: skip
    lines += ["", *table(columns, [_owner_row(each) for each in found.owners]).splitlines()]
    most = sorted(found.runs, key=lambda each: (-abs(each.waits_more_ms), each.run))
    shown = most if show_wide else most[:RUNS_MAX]
    columns = (Column("RUN"), Column("OWNER"), right("WAITS"), Column("START"), Column("END"))
    lines += ["", *table(columns, [_run_row(each) for each in shown]).splitlines()]
    if len(shown) < len(most):
        rest = counted(len(most) - len(shown), "more run")
        lines.append(f"and {rest} differ; all of them: -o wide")
    return lines


def _notes(forked: Forked, unsure: int) -> list[str]:
    notes = []
    if unsure:
        notes.append(
            f"note: a fork without a change does not reproduce {counted(unsure, 'run')}; "
            "differences in so few runs are not significant"
        )
    if forked.undrawn:
        notes.append(
            f"note: {counted(len(forked.undrawn), 'conflict')} could not be drawn: the lottery's "
            "secret is not beside the ledger"
        )
    if forked.refused:
        notes.append(
            f"note: {counted(len(forked.refused), 'recorded command')} would have been refused, "
            f"the first: {forked.refused[0]}"
        )
    return notes


def _unpaid(each: Unpaid) -> str:
    gpus = f"{each.gpus} of the {counted(each.added, f'added {each.flavor} GPU')}"
    if each.lever is None:
        return f"note: no envelope selects {gpus}; add an envelope for them"
    return f"note: if all GPUs are busy, no envelope pays for {gpus}; add {each.lever}"


def _mean(spread: Any) -> str:
    return "-" if spread is None else seconds(spread.mean)


def _owner_row(each: OwnerDifference) -> tuple[str, ...]:
    return (
        each.owner,
        str(each.runs),
        str(each.runs_changed),
        f"{each.completed[0]} -> {each.completed[1]}",
        f"{hours(each.gpu_ms[0])} -> {hours(each.gpu_ms[1])}",
        f"{countdown(each.waited_ms[0])} -> {countdown(each.waited_ms[1])}",
    )


def _run_row(each: RunDifference) -> tuple[str, ...]:
    more = each.waits_more_ms
    sign = "+" if more > 0 else "-" if more < 0 else ""
    return (
        each.run,
        each.owner,
        f"{sign}{countdown(abs(more))}",
        _change(*(_at(run, "started_ms") for run in (each.was, each.now))),
        _change(*(_at(run, "ended_ms") for run in (each.was, each.now))),
    )


def _at(run: SimulatedRun | None, field: str) -> str:
    at_ms = None if run is None else getattr(run, field)
    return "-" if at_ms is None else time_text(at_ms)


def _change(was: str, now: str) -> str:
    return was if was == now else f"{was} -> {now}"


def whatif_tree(
    found: Differences,
    forked: Forked,
    unsure: int,
    differs: int | None,
    unpaid: Sequence[Unpaid] = (),
) -> dict[str, Any]:
    """Return the differences for programs, with every run that differs.

    ``differs`` is the sequence number of the first event that a fork without a change does not
    reproduce; None if the fork reproduces all events.
    """
    return {
        "was": metrics_tree(found.was),
        "wouldBe": metrics_tree(found.now),
        "owners": to_builtins(found.owners),
        "runs": [
            {
                "run": each.run,
                "owner": each.owner,
                "waitsMoreMs": each.waits_more_ms,
                "startedMs": [_ms(each.was, "started_ms"), _ms(each.now, "started_ms")],
                "endedMs": [_ms(each.was, "ended_ms"), _ms(each.now, "ended_ms")],
            }
            for each in found.runs
        ],
        "notReproduced": unsure,
        "firstEventNotReproduced": differs,
        "undrawn": list(forked.undrawn),
        "refused": list(forked.refused),
        "unpaid": to_builtins(list(unpaid)),
    }


def _ms(run: SimulatedRun | None, field: str) -> int | None:
    found: int | None = None if run is None else getattr(run, field)
    return found


def score_lines(found: ForecastScore) -> list[str]:
    """Return how well forecasts matched the starts, for people."""
    if not found.starts:
        return _nothing_scored(found)
    facts = [
        ("Forecasts", f"{found.starts} scored, {found.undecided} not decided yet"),
        ("Started by P50", f"{_percent(found.by_p50)}; 50 % would be exact"),
        ("Started by P90", f"{_percent(found.by_p90)}; 90 % would be exact"),
        (
            "Mean loss",
            (
                f"P50 {_seconds(found.loss_p50_s)}, P90 {_seconds(found.loss_p90_s)} "
                "(quantile loss; 0 would be exact)"
            ),
        ),
        (
            "Without a forecast",
            (
                f"{found.unforeseen} waited, {found.started_at_once} started at once, "
                f"{found.in_rounds} share in rounds"
            ),
        ),
    ]
    return pairs(facts).splitlines()


def _nothing_scored(found: ForecastScore) -> list[str]:
    """Return why a ledger has no forecast to score, and what to do."""
    counts = (
        (found.undecided, "whose P90 is after the end of the ledger"),
        (found.unforeseen, "that waited without a planned start"),
        (found.started_at_once, "that started at once"),
        (found.in_rounds, "in a pool that shares in rounds"),
    )
    facts = [f"{counted(count, 'run')} {what}" for count, what in counts if count]
    lines = [f"there is nothing to score: {', '.join(facts) or 'no run was submitted'}"]
    if found.in_rounds:
        lines.append(
            "A run in rounds has a share of time instead of a planned start, so it has no forecast;"
            " quorate report shows how long such runs waited"
        )
    return lines


def score_tree(found: ForecastScore) -> dict[str, Any]:
    """Return the score of forecasts for programs."""
    tree: dict[str, Any] = to_builtins(found)
    return tree


def _percent(part: float | None) -> str:
    return "-" if part is None else percent(part)


def _seconds(value: float | None) -> str:
    return "-" if value is None else seconds(value)
