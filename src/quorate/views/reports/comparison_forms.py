"""A comparison of policies as tables and as a tree: differences and their intervals. Pure."""

from __future__ import annotations

from typing import Any

from quorate.sim.report.compare import FIGURES, Comparison, Difference, Figure
from quorate.views.reports.report_forms import metrics_tree
from quorate.views.table import Column, right, table


def comparison_lines(found: Comparison) -> list[str]:
    """Return the means of each policy, then each difference with its interval."""
    columns = (Column(f"MEAN OF {len(found.seeds)} SEEDS"), *(right(name) for name in found.names))
    rows = [
        (title_of(found, figure), *("-" if each is None else number(each) for each in means))
        for figure, means in means_of(found)
    ]
    lines = table(columns, rows).splitlines()
    for pair in dict.fromkeys((each.first, each.second) for each in found.differences):
        theirs = [each for each in differences_of(found) if (each.first, each.second) == pair]
        columns = (
            Column(f"{pair[1]} LESS {pair[0]}"), right("DIFFERENCE"), right("95 % FROM"),
            right("TO"), Column("BETTER"),
        )  # fmt: skip
        rows = [
            (
                title_of(found, each.figure),
                *map(number, (each.mean, each.low, each.high)),
                verdict(each),
            )
            for each in theirs
        ]
        lines += ["", *table(columns, rows).splitlines()]
    return lines


def title_of(found: Comparison, figure: Figure) -> str:
    """Return the title of ``figure``; for the cost, with its unit and the source of the prices."""
    unit = next((each.cost_unit for each in found.metrics.values()), "")
    return f"{figure.title}, {unit}" if figure.key == "cost" and unit else figure.title


def means_of(found: Comparison) -> list[tuple[Figure, list[float | None]]]:
    """Return each figure with the means of the policies, to be shown to people.

    Figures that are missing or 0 for all policies are left out. Programs get all figures.
    """
    means = [(each, [found.mean_of(each, name) for name in found.names]) for each in FIGURES]
    return [(figure, values) for figure, values in means if any(values)]


def differences_of(found: Comparison) -> list[Difference]:
    """Return the differences for the figures of ``means_of``."""
    shown = {figure.key for figure, _ in means_of(found)}
    return [each for each in found.differences if each.figure.key in shown]


def verdict(found: Difference) -> str:
    """Return which policy is better by this difference, or why no better policy is named."""
    if found.better is not None:
        return found.better
    is_around_0 = found.low <= 0 <= found.high
    return (
        ("not significant: the interval contains 0")
        if is_around_0
        else "not shown: within rounding"
    )


def number(value: float) -> str:
    """Return a figure with four significant digits."""
    text = f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"  # noqa: PLR2004 - as said
    return "0" if text == "-0" else text


def comparison_tree(found: Comparison) -> dict[str, Any]:
    """Return the comparison for programs, with the figures of every policy and seed."""
    return {
        "policies": list(found.names),
        "seeds": list(found.seeds),
        "means": {
            name: {figure.key: found.mean_of(figure, name) for figure in FIGURES}
            for name in found.names
        },
        "differences": [
            {
                "figure": each.figure.key,
                "first": each.first,
                "second": each.second,
                "mean": each.mean,
                "low": each.low,
                "high": each.high,
                "bySeed": {str(seed): value for seed, value in each.by_seed.items()},
                "better": each.better,
            }
            for each in found.differences
        ],
        "metrics": [metrics_tree(each) for each in found.metrics.values()],
    }
