"""One HTML page about outcomes: figures, plots and a comparison. Pure.

The page contains its styles and drawings and fetches nothing. The page follows the reader's light
or dark setting and runs no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from quorate.sim.outcome import Outcome
from quorate.sim.report.compare import Comparison
from quorate.sim.report.metrics import Metrics, metrics_of
from quorate.views.reports.comparison_forms import (
    differences_of,
    means_of,
    number,
    title_of,
    verdict,
)
from quorate.views.reports.report_forms import estimate, hours, percent, seconds
from quorate.views.reports.report_plots import (
    Plot,
    comparison_plot,
    completion_plot,
    gantt_plot,
    queue_plot,
    shares_plot,
    utilisation_plot,
    waits_plot,
)

DETAILED_MAX: Final = 4
"""For how many policies, at most, the page has a plot of shares and a plot of work by domain."""

_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --dim: #626b76; --rule: #e3e7ec;
  --c0: #1f6fb4; --c1: #d1571b; --c2: #2a8f5b; --c3: #a3459f; --c4: #b8860b; --c5: #3aa0b5;
  --c6: #c4314b; --c7: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e7ebf0; --dim: #8b95a1;
  --rule: #2b3138; --c0: #66aef0; --c1: #f08c55; --c2: #5fc992; --c3: #d68ad3; --c4: #e0b545;
  --c5: #6fd0e3; --c6: #f2788c; --c7: #a5adb8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 110rem; padding: 1rem clamp(0.8rem, 3vw, 3rem) 3rem;
  background: var(--paper); color: var(--ink);
  font: clamp(15px, 0.9rem + 0.25vw, 21px)/1.45 system-ui, sans-serif; }
h1 { font-size: 1.6em; margin: 0.4em 0 0; } h2 { font-size: 1.25em; margin: 1.6em 0 0.4em; }
h3 { font-size: 1em; margin: 0; } p { margin: 0.2em 0 0.6em; color: var(--dim); }
.plots { display: grid; gap: 1.4rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); }
.plots.large { grid-template-columns: repeat(auto-fill, minmax(min(100%, 48rem), 1fr)); }
figure { margin: 0; min-width: 0; } figcaption p { font-size: 0.85em; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 15px system-ui, sans-serif; fill: var(--ink); }
@media (min-width: 62rem) { .large svg text { font-size: 11px; } }
.grid { stroke: var(--rule); } .mark { stroke: var(--ink); stroke-width: 2; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.legend { display: flex; flex-wrap: wrap; gap: 0.2em 1.1em; list-style: none; padding: 0;
  margin: 0.2em 0 0; font-size: 0.85em; }
.legend i { display: inline-block; width: 0.9em; height: 0.9em; margin-right: 0.4em;
  border-radius: 2px; vertical-align: -0.08em; }
.wide { overflow-x: auto; margin-bottom: 1rem; } .tables { display: flex; flex-wrap: wrap;
  gap: 0 4rem; } .tables > div { max-width: 100%; }
table { border-collapse: collapse; font-size: 0.9em; }
th, td { padding: 0.25em 0.9em 0.25em 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child, td.words { text-align: left; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--paper); }
@media (max-width: 32rem) { th, td { padding-right: 0.6em; }
  table { font-size: 0.8em; } }
@media print { body { max-width: none; } figure { break-inside: avoid; } }
"""


def html_report(
    outcomes: Sequence[Outcome],
    *,
    title: str,
    comparison: Comparison | None = None,
    more: Sequence[str] = (),
) -> str:
    """Return the page about ``outcomes``; of outcomes with the same name, only the first is drawn.

    ``comparison`` compares the same policies over several seeds, if given. ``more`` are parts of
    the page, as HTML, that come before the figures.
    """
    drawn = list({each.name: each for each in reversed(outcomes)}.values())[::-1]
    every = [metrics_of(each) for each in drawn]
    plots = [completion_plot(drawn), utilisation_plot(drawn), queue_plot(drawn), waits_plot(every)]
    detailed = [shares_plot(each) for each in every[:DETAILED_MAX]]
    work = [gantt_plot(each) for each in drawn[:DETAILED_MAX]]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(_about(drawn, comparison))}</p>",
        *more,
        '<div class="tables">',
        f"<div><h2>Figures</h2>{_figures(every)}</div>",
    ]
    if comparison is None:
        parts.append("</div>")
    else:
        parts += [f"<div><h2>Comparison</h2>{_means(comparison)}</div></div>"]
        parts += [_comparison(comparison)]
    parts += ["<h2>Over all</h2>", _grid(plots), "<h2>Shares</h2>", _grid(detailed)]
    parts += ["<h2>Work</h2>", _grid(work, "plots large")]
    return html_page(title, parts)


def html_page(title: str, parts: Sequence[str]) -> str:
    """Return a page of ``parts`` in the style of reports; the page needs no network."""
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _about(drawn: Sequence[Outcome], comparison: Comparison | None) -> str:
    names = ", ".join(each.name for each in drawn)
    if comparison is None:
        return f"{names}; times in hours are since the beginning"
    seeds = ", ".join(map(str, comparison.seeds))
    return f"{names}; seeds {seeds}; figures and plots are of seed {drawn[0].seed}"


def _grid(plots: Sequence[Plot | None], kind: str = "plots") -> str:
    """Return plots side by side.

    A single plot is not drawn wider: stretched over a projector's width, its letters would be three
    times as large as the text.
    """
    return f'<div class="{kind}">{"".join(_figure(each) for each in plots if each)}</div>'


def _figure(plot: Plot) -> str:
    return (
        f"<figure><figcaption><h3>{escape(plot.title)}</h3><p>{escape(plot.note)}</p>"
        f"</figcaption>\n{plot.svg}\n{plot.legend}</figure>\n"
    )


def _figures(every: Sequence[Metrics]) -> str:
    rows: list[tuple[str, list[str]]] = [
        ("runs", [str(each.runs) for each in every]),
        ("completed", [str(each.completed) for each in every]),
    ]
    for name, percents in (("mean", None), ("P50", 50), ("P90", 90), ("P99", 99)):
        rows.append((f"JCT, {name}", [_jct(each, percents) for each in every]))
    rows += [
        ("wait, mean", ["-" if m.wait_s is None else seconds(m.wait_s.mean) for m in every]),
        ("makespan", [seconds(each.makespan_s) for each in every]),
        ("utilisation", [percent(each.utilisation) for each in every]),
        ("idle while wanted", [percent(each.idle_while_wanted) for each in every]),
        ("finish-time fairness, P99", [_fair(each) for each in every]),
        ("share gap", ["-" if m.share_gap is None else percent(m.share_gap) for m in every]),
        ("SLO violations", [f"{each.slo_violations} of {each.slo_runs}" for each in every]),
    ]
    if any(each.cost for each in every):
        unit = next((each.cost_unit for each in every if each.cost_unit), "")
        title = f"cost, {unit}" if unit else "cost"
        rows.append((title, [f"{each.cost:,.2f}" for each in every]))
    rows += [
        ("preemptions", [str(each.preemptions) for each in every]),
        ("lost work, GPU-hours", [_lost(each) for each in every]),
        ("lotteries drawn", [str(each.draws) for each in every]),
    ]
    return html_table(
        "Figures",
        ["", *(each.name for each in every)],
        [[name, *cells] for name, cells in rows],
    )


def _jct(found: Metrics, percents: int | None) -> str:
    spread = found.jct_s
    if spread is None:
        return "-"
    figures = {None: spread.mean, 50: spread.p50, 90: spread.p90, 99: spread.p99}
    return seconds(figures[percents])


def _fair(found: Metrics) -> str:
    if found.finish_time_fairness is None:
        return "-"
    return f"{found.finish_time_fairness.p99:.2f}{estimate(found, 'finish_time_fairness')}"


def _lost(found: Metrics) -> str:
    return f"{hours(found.lost_gpu_hours * 3_600)}{estimate(found, 'lost_gpu_hours')}"


def _means(found: Comparison) -> str:
    rows = [
        [title_of(found, figure), *("-" if value is None else number(value) for value in values)]
        for figure, values in means_of(found)
    ]
    columns = [f"mean of {len(found.seeds)} seeds", *found.names]
    return html_table("Comparison", columns, rows)


def _comparison(found: Comparison) -> str:
    pairs = list(dict.fromkeys((each.first, each.second) for each in found.differences))
    plots = [comparison_plot(found, first, second) for first, second in pairs]
    rows = [
        [
            f"{title_of(found, each.figure)}: {each.second} less {each.first}",
            number(each.mean),
            f"{number(each.low)} to {number(each.high)}",
            verdict(each),
        ]
        for each in differences_of(found)
    ]
    return (
        _grid(plots)
        + "<details><summary>Every difference</summary>"
        + html_table("Every difference", ["figure", "difference", "95 % interval", "better"], rows)
        + "</details>"
    )


def html_table(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of ``rows``, with every cell escaped.

    A table wider than the screen scrolls inside itself. The table can have the keyboard focus,
    because otherwise keys cannot scroll it. Screen readers read ``name`` as the label of the table.
    """
    head = "".join(f"<th>{escape(each)}</th>" for each in columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    scrolls = f'class="wide" tabindex="0" role="group" aria-label="{escape(name)}"'
    return f"<div {scrolls}><table><tr>{head}</tr>\n{body}</table></div>\n"
