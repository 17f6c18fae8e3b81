"""The plots of a report: completion times, utilisation, queue, shares, waits, Gantt. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from quorate.core.accounting.wait_causes import WaitCause
from quorate.model.amounts import HOUR_MS, SECOND_MS
from quorate.sim.outcome import Outcome
from quorate.sim.report.compare import Comparison, Difference
from quorate.sim.report.metrics import Metrics, is_complete
from quorate.sim.report.timelines import busy, capacity, edges_of, means, waiting
from quorate.views.reports.comparison_forms import number, verdict
from quorate.views.reports.report_forms import percent
from quorate.views.reports.svg_plot import (
    BOTTOM,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    Series,
    axes,
    box,
    dot,
    drawing,
    duration_ticks,
    legend,
    line,
    mark,
    number_text,
    span,
    text,
    x_scale,
    y_scale,
)

PARTS: Final = 160
"""How many intervals a plot divides its time into; it shows the mean of each interval."""
POINTS_MAX: Final = 300
"""How many points of a distribution are drawn, at most."""
OWNERS_MAX: Final = 12
"""How many owners have a bar of their own; the others share one bar."""
GANTT_MAX: Final = 1_200
"""How many bars a Gantt chart has, at most.

If the runs need more bars, the chart ends where the first bar that does not fit begins.
"""
_BAR: Final = 18
_ROW: Final = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A drawing with its title, a caption, and a legend."""

    title: str
    note: str
    svg: str
    legend: str = ""


def completion_plot(outcomes: Sequence[Outcome]) -> Plot | None:
    """Return the distribution of completion times; None if no run has completed."""
    found: list[Series] = []
    for outcome in outcomes:
        times = sorted(
            max(1, run.ended_ms - run.submitted_ms) / SECOND_MS
            for run in outcome.runs
            if run.ended_ms is not None and is_complete(run)
        )
        if times:
            count = len(times)
            picked = sorted({round(k * (count - 1) / POINTS_MAX) for k in range(POINTS_MAX + 1)})
            found.append(
                Series(outcome.name, _steps([(times[k], (k + 1) / count) for k in picked]))
            )
    if not found:
        return None
    low = min(each.points[0][0] for each in found)
    high = max(each.points[-1][0] for each in found)
    x, y = x_scale(low, high, is_log=True), y_scale(0, 1)
    lines = [line(each, x, y, colour) for colour, each in enumerate(found)]
    titles = ("completion time (logarithmic)", "part of the runs")
    body = [*axes(x, y, *titles, duration_ticks(x)), *lines]
    return Plot(
        title="Completion times",
        note="Fraction of the completed runs that took at most this long. Further left is better.",
        svg=drawing("Distribution of completion times", body),
        legend=legend([each.name for each in found]),
    )


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return a step line from 0: each of ``points`` has a time and the value from that time on."""
    found, part = list[tuple[float, float]](), 0.0
    for at, next_part in points:
        found += [(at, part), (at, next_part)]
        part = next_part
    return found


def utilisation_plot(outcomes: Sequence[Outcome]) -> Plot:
    """Return the fraction of GPUs that was busy, over time."""
    found = []
    for outcome in outcomes:
        edges = edges_of(outcome.started_ms, outcome.ended_ms, PARTS)
        used, there = means(busy(outcome.runs), edges), means(capacity(outcome), edges)
        parts = [a / b if b else 0.0 for a, b in zip(used, there, strict=True)]
        found.append(Series(outcome.name, _over_time(outcome, edges, parts)))
    return _time_plot(
        "Utilisation", "GPUs in use by runs, without spares.", found, "part busy", top=1.0
    )


def queue_plot(outcomes: Sequence[Outcome]) -> Plot:
    """Return how many runs waited, over time."""
    found = []
    for outcome in outcomes:
        edges = edges_of(outcome.started_ms, outcome.ended_ms, PARTS)
        found.append(
            Series(outcome.name, _over_time(outcome, edges, means(waiting(outcome), edges)))
        )
    top = max((value for each in found for _, value in each.points), default=0.0)
    return _time_plot("Queue", "Runs that waited.", found, "runs waiting", top=top)


def _over_time(
    outcome: Outcome, edges: Sequence[int], values: Sequence[float]
) -> list[tuple[float, float]]:
    """Return ``values`` as a step line over the hours since the outcome began."""
    return [
        ((at_ms - outcome.started_ms) / HOUR_MS, value)
        for ends, value in zip(pairwise(edges), values, strict=True)
        for at_ms in ends
    ]


def _time_plot(title: str, note: str, found: Sequence[Series], y_title: str, *, top: float) -> Plot:
    high = max((each.points[-1][0] for each in found if each.points), default=1.0)
    x, y = x_scale(0, high), y_scale(0, top)
    lines = [line(each, x, y, colour) for colour, each in enumerate(found)]
    return Plot(
        title=title,
        note=f"{note} Means of {PARTS} parts of the time.",
        svg=drawing(f"{title} over time", [*axes(x, y, "hours", y_title), *lines]),
        legend=legend([each.name for each in found]),
    )


def shares_plot(found: Metrics) -> Plot | None:
    """Return each owner's part of the GPU time that was used; None if no GPU was used."""
    ranked = sorted(found.shares.items(), key=lambda each: (-each[1].share, each[0]))
    shown, rest = ranked[:OWNERS_MAX], ranked[OWNERS_MAX:]
    if not shown:
        return None
    bars = [(owner, share.share, share.target) for owner, share in shown]
    if rest:
        bars.append((f"{len(rest)} others", sum(share.share for _, share in rest), None))
    height = TOP + _ROW * len(bars) + BOTTOM
    high = max([part for _, part, _ in bars] + [target or 0 for _, _, target in bars] + [0.01])
    x = _beside_names(0, high)
    body = _bar_axis(x, height, "share of the GPU time that was used")
    for row, (owner, part, target) in enumerate(bars):
        top = TOP + row * _ROW + (_ROW - _BAR) / 2
        told = f"{owner}: {percent(part)}"
        body.append(text(x.first - 6, top + 13, _short(owner), anchor="end"))
        body.append(box((x.first, x.at(part)), (top, top + _BAR), 0, told))
        if target is not None:
            words = f"target of {owner}: {percent(target)}"
            body.append(mark(x.at(target), top - 3, top + _BAR + 3, words))
    return Plot(
        title=f"Shares by owner: {found.name}",
        note="A vertical line marks an owner's target.",
        svg=drawing(f"Shares of owners under {found.name}", body, height),
    )


def waits_plot(every: Sequence[Metrics]) -> Plot | None:
    """Return the causes of waiting, as one bar for each outcome; None if no run waited."""
    high = max((sum(each.waits_by_cause_s.values()) for each in every), default=0.0) / 3_600
    if not high:
        return None
    causes = [cause for cause in WaitCause if any(cause in each.waits_by_cause_s for each in every)]
    height = TOP + _ROW * len(every) + BOTTOM
    x = _beside_names(0, high)
    body = _bar_axis(x, height, "run-hours of waiting")
    for row, each in enumerate(every):
        top = TOP + row * _ROW + (_ROW - _BAR) / 2
        body.append(text(x.first - 6, top + 13, _short(each.name), anchor="end"))
        reached = 0.0
        for colour, cause in enumerate(causes):
            part = each.waits_by_cause_s.get(cause, 0.0) / 3_600
            told = f"{each.name}, {cause}: {part:,.2f} run-hours"
            ends = (x.at(reached), x.at(reached + part))
            body += [box(ends, (top, top + _BAR), colour, told)] if part else []
            reached += part
    return Plot(
        title="Waits by cause",
        note="All waits of all runs, by cause.",
        svg=drawing("Waits by cause", body, height),
        legend=legend([str(cause) for cause in causes]),
    )


def gantt_plot(outcome: Outcome) -> Plot | None:
    """Return the runs in each domain over time, coloured by owner; None if no run had GPUs."""
    spans = sorted(
        ((each.start_ms, each.end_ms, each.domain, each.gpus, run.name, run.owner)
         for run in outcome.runs for each in run.intervals if each.gpus),
    )  # fmt: skip
    if not spans:
        return None
    until_ms, note = outcome.ended_ms, "All of it."
    if len(spans) > GANTT_MAX:
        until_ms = max(spans[GANTT_MAX][0], spans[0][1])
        note = f"The first {(until_ms - outcome.started_ms) / HOUR_MS:.1f} hours."
        spans = [each for each in spans if each[0] < until_ms]
    owners = _coloured([each[5] for each in spans])
    domains = sorted({each[2] for each in spans})
    lanes = {
        domain: _lanes([(s[0], s[1], s[3]) for s in spans if s[2] == domain]) for domain in domains
    }
    tall = {domain: max(top for _, top in lanes[domain]) for domain in domains}
    unit = min(6.0, max(0.6, 360 / sum(tall.values())))
    height = int(TOP + sum(gpus * unit + 8 for gpus in tall.values()) + BOTTOM)
    x = _beside_names(0, (until_ms - outcome.started_ms) / HOUR_MS)
    body, top = _bar_axis(x, height, "hours"), float(TOP)
    for domain in domains:
        middle = top + tall[domain] * unit / 2 + 4
        body.append(text(x.first - 6, middle, _short(domain), anchor="end"))
        theirs = [each for each in spans if each[2] == domain]
        for each, (low, high) in zip(theirs, lanes[domain], strict=True):
            start_h = (each[0] - outcome.started_ms) / HOUR_MS
            end_h = (min(each[1], until_ms) - outcome.started_ms) / HOUR_MS
            told = f"{each[4]} of {each[5]}: {each[3]} GPUs"
            ends = (x.at(start_h), x.at(end_h))
            where = (top + low * unit, top + high * unit - 0.3)
            body.append(box(ends, where, owners.get(each[5], len(owners)), told))
        top += tall[domain] * unit + 8
    names = [*owners, "others"] if len({each[5] for each in spans}) > len(owners) else [*owners]
    return Plot(
        title=f"Work by domain: {outcome.name}",
        note=f"Each box is a run; its height is its number of GPUs. {note}",
        svg=drawing(f"Gantt chart by domain under {outcome.name}", body, height),
        legend=legend(names),
    )


def comparison_plot(found: Comparison, first: str, second: str) -> Plot:
    """Return by how much ``second`` differs from ``first``, in percent of ``first``."""
    theirs = [e for e in found.differences if (e.first, e.second) == (first, second)]
    rows: list[tuple[Difference, float, float, float]] = []
    for each in theirs:
        base = found.mean_of(each.figure, first)
        if base:
            scale = 100 / abs(base)
            rows.append((each, each.mean * scale, each.low * scale, each.high * scale))
    height = TOP + 24 * max(1, len(rows)) + BOTTOM
    most = min(200.0, max([1.0, *(abs(v) for _, *values in rows for v in values)]))
    x = _beside_names(-most, most, left=204)
    body = _bar_axis(x, height, "difference in %")
    body.append(mark(x.at(0), TOP, height - BOTTOM, "no difference"))
    for row, (each, mean, low, high) in enumerate(rows):
        y = TOP + 24 * row + 12
        colour = None if each.better is None else found.names.index(each.better)
        told = f"{number(each.mean)} ({number(each.low)} to {number(each.high)}): {verdict(each)}"
        body.append(text(x.first - 6, y + 4, each.figure.title, anchor="end"))
        body.append(span(x.at(low), x.at(high), y, colour))
        body.append(dot(x.at(mean), y, colour, f"{each.figure.title}: {told}"))
    return Plot(
        title=f"{second} against {first}",
        note=f"Mean of paired differences over {len(found.seeds)} seeds, with 95 % intervals. "
        "The colour is that of the better policy, and grey if the interval contains 0.",
        svg=drawing(f"Differences of {second} and {first}", body, height),
        legend=legend([first, second], [found.names.index(first), found.names.index(second)]),
    )


def _beside_names(low: float, high: float, *, left: int = 152) -> Scale:
    """Return a horizontal scale that leaves room for names on its left."""
    wide = x_scale(low, high)
    return Scale(low=wide.low, high=wide.high, first=left, last=WIDTH - RIGHT)


def _bar_axis(x: Scale, height: int, title: str) -> list[str]:
    bottom = height - BOTTOM
    found = []
    for tick in x.ticks():
        at = x.at(tick)
        found.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>')
        found.append(text(at, bottom + 16, number_text(tick), anchor="middle"))
    found.append(text((x.first + x.last) / 2, height - 6, title, anchor="middle"))
    return found


def _coloured(owners: Sequence[str]) -> Mapping[str, int]:
    """Return a colour for each of the 7 names that occur most often in ``owners``.

    The colours are given in the order of the names.
    """
    count: dict[str, int] = {}
    for owner in owners:
        count[owner] = count.get(owner, 0) + 1
    most = sorted(count, key=lambda owner: (-count[owner], owner))[:7]
    return {owner: colour for colour, owner in enumerate(sorted(most))}


def _lanes(spans: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Return for each of ``spans`` the lowest range of GPUs that is free at its start.

    A span has a start, an end and a number of GPUs. The spans are in the order of their starts.
    """
    placed: list[tuple[int, int, int]] = []
    found: list[tuple[int, int]] = []
    for start_ms, end_ms, gpus in spans:
        placed = sorted(each for each in placed if each[2] > start_ms)
        low = 0
        for taken_low, taken_high, _ in placed:
            if taken_low - low >= gpus:
                break
            low = max(low, taken_high)
        placed.append((low, low + gpus, end_ms))
        found.append((low, low + gpus))
    return found


def _short(name: str, most: int = 15) -> str:
    """Return ``name``, without its middle if it is long; names of policies differ at their ends."""
    if len(name) <= most:
        return name
    end = most // 2
    return f"{name[: most - 1 - end]}…{name[-end:]}"
