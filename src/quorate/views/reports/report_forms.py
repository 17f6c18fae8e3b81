"""The figures of one outcome as a table or a tree, and its runs as CSV or Parquet. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from msgspec import to_builtins

from quorate.core.accounting.wait_causes import WaitCause
from quorate.sim.outcome import Outcome, SimulatedRun
from quorate.sim.report.metrics import Metrics, Spread, is_complete
from quorate.views.csv_text import Cell, to_csv
from quorate.views.reports.parquet_bytes import Kind, ParquetColumn, parquet
from quorate.views.table import Column, pairs, right, table

RUN_COLUMNS: Final = (
    "policy", "seed", "run", "owner", "gpus", "submitted_ms", "started_ms", "ended_ms",
    "completed", "ideal_ms", "deadline_ms", "wait_ms",
    *(f"wait_{cause}_ms" for cause in WaitCause),
    "preemptions", "lost_gpu_ms", "steps_asked", "steps_done", "cost",
)  # fmt: skip
"""The columns of the runs of an outcome, in CSV and in Parquet."""

_KINDS: Final = {
    **dict.fromkeys(("policy", "run", "owner"), Kind.TEXT),
    **dict.fromkeys(("steps_asked", "steps_done", "cost"), Kind.DOUBLE),
    "completed": Kind.BOOLEAN,
}
"""The types of the columns that do not hold integers."""
_OPTIONAL: Final = frozenset({"started_ms", "ended_ms", "deadline_ms"})

RunCell = str | bool | int | float | None
"""The value of a run in one of ``RUN_COLUMNS``."""


def metrics_tree(found: Metrics) -> dict[str, Any]:
    """Return the figures for programs; ``jct_mean_s`` repeats the mean in ``jct_s``."""
    tree: dict[str, Any] = to_builtins(found)
    tree["jct_mean_s"] = None if found.jct_s is None else found.jct_s.mean
    return tree


def metrics_lines(found: Metrics, of: tuple[str, str] | None = None) -> list[str]:
    """Return the figures for people; if given, ``of`` replaces the line about policy and seed."""
    facts = [
        of or ("Policy", f"{found.name}, seed {found.seed}"),
        ("Runs", f"{found.runs}, {found.completed} completed"),
        ("Makespan", seconds(found.makespan_s)),
        ("Utilisation", _utilisation(found)),
        ("Idle while wanted", percent(found.idle_while_wanted)),
        ("Queue, mean", f"{found.queue_mean:.1f} runs"),
        (
            "Preemptions",
            f"{found.preemptions}, {found.lost_gpu_hours:.2f} GPU-hours lost"
            + estimate(found, "lost_gpu_hours"),
        ),
        ("Lotteries drawn", str(found.draws)),
    ]
    if found.cost:
        facts.append(("Cost", f"{found.cost:,.2f} {found.cost_unit}".rstrip()))
    if found.slo_runs:
        facts.append(("SLO", f"{found.slo_violations} of {found.slo_runs} runs late"))
    if found.finish_time_fairness is not None:
        fair = found.finish_time_fairness
        facts.append(
            (
                "Finish-time fairness",
                f"mean {fair.mean:.2f}, P99 {fair.p99:.2f}, most {fair.most:.2f}"
                + estimate(found, "finish_time_fairness"),
            )
        )
    if found.share_gap is not None:
        facts.append(("Share gap", percent(found.share_gap)))
    lines = [*pairs(facts).splitlines(), "", *_spread_table(found)]
    if found.waits_by_cause_s:
        lines += ["", *_waits_table(found.waits_by_cause_s)]
    return [*lines, "", *_shares_table(found)]


def estimate(found: Metrics, figure: str) -> str:
    """Return the remark that ``figure`` is an estimate; empty if it is not an estimate."""
    return " (estimated)" if figure in found.estimated else ""


def _utilisation(found: Metrics) -> str:
    parts = [f"{name} {percent(part)}" for name, part in found.utilisation_by_flavor.items()]
    return (
        f"{percent(found.utilisation)} ({', '.join(parts)})"
        if len(parts) > 1
        else percent(found.utilisation)
    )


def _spread_table(found: Metrics) -> list[str]:
    columns = (
        Column("COMPLETION TIME"), right("RUNS"), right("MEAN"), right("P50"), right("P90"),
        right("P99"), right("MOST"),
    )  # fmt: skip
    rows = [] if found.jct_s is None else [_spread_row("all", found.jct_s)]
    rows += [_spread_row(name, each) for name, each in found.jct_by_size_s.items()]
    rows += [_spread_row(f"of {name}", each) for name, each in found.jct_by_owner_s.items()]
    if found.wait_s is not None:
        rows.append(_spread_row("wait of all", found.wait_s))
    return table(columns, rows).splitlines()


def _spread_row(name: str, spread: Spread) -> tuple[str, ...]:
    figures = (spread.mean, spread.p50, spread.p90, spread.p99, spread.most)
    return (name, str(spread.count), *map(seconds, figures))


def _waits_table(waits_s: Mapping[WaitCause, float]) -> list[str]:
    total_s = sum(waits_s.values())
    rows = [(str(cause), hours(each), percent(each / total_s)) for cause, each in waits_s.items()]
    rows.append(("all", hours(total_s), ""))
    return table((Column("WAITED FOR"), right("RUN-HOURS"), right("PART")), rows).splitlines()


def _shares_table(found: Metrics) -> list[str]:
    rows = [
        (
            owner,
            f"{share.gpu_hours:,.2f}",
            percent(share.share),
            "-" if share.target is None else percent(share.target),
        )
        for owner, share in found.shares.items()
    ]
    columns = (Column("OWNER"), right("GPU-HOURS"), right("SHARE"), right("TARGET"))
    return table(columns, rows).splitlines()


def seconds(value: float) -> str:
    """Return a length of time in a suitable unit."""
    for unit, unit_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value >= 2 * unit_s:
            return f"{value / unit_s:.1f} {unit}"
    return f"{value:.3g} s" if value < 1 else f"{value:.1f} s"


def hours(value_s: float) -> str:
    """Return seconds as hours."""
    return f"{value_s / 3_600:,.2f}"


def percent(part: float) -> str:
    """Return a fraction in percent."""
    return f"{100 * part:.1f} %"


def runs_csv(outcomes: Sequence[Outcome]) -> str:
    """Return every run of ``outcomes`` as a line under ``RUN_COLUMNS``."""
    rows = [run_cells(outcome, run) for outcome in outcomes for run in outcome.runs]
    return to_csv(RUN_COLUMNS, [[_plain(cell) for cell in row] for row in rows])


def runs_parquet(outcomes: Sequence[Outcome]) -> bytes:
    """Return every run of ``outcomes`` as a row of a Parquet file, under ``RUN_COLUMNS``."""
    columns = [
        ParquetColumn(name, _KINDS.get(name, Kind.INT64), is_optional=name in _OPTIONAL)
        for name in RUN_COLUMNS
    ]
    rows = [run_cells(outcome, run) for outcome in outcomes for run in outcome.runs]
    return parquet(columns, rows)


def run_cells(outcome: Outcome, run: SimulatedRun) -> tuple[RunCell, ...]:
    """Return the cells of one run under ``RUN_COLUMNS``."""
    return (
        outcome.name,
        outcome.seed,
        run.name,
        run.owner,
        run.gpus,
        run.submitted_ms,
        run.started_ms,
        run.ended_ms,
        is_complete(run),
        run.ideal_ms,
        run.deadline_ms,
        sum(run.waits_ms.values()),
        *(run.waits_ms.get(cause, 0) for cause in WaitCause),
        run.preemptions,
        run.lost_gpu_ms,
        float(run.steps_asked),
        float(run.steps_done),
        float(run.cost),
    )


def _plain(cell: RunCell) -> Cell:
    return Decimal(repr(cell)) if isinstance(cell, float) else cell
