"""Policies, their allocations and tables of rates: as lines for people, as trees for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from quorate.policy.allocation import Allocation, Method, Unsolved, job_rates
from quorate.policy.files.allocation_file import allocation_tree, row_keys
from quorate.policy.files.throughputs_file import ThroughputTable
from quorate.policy.measures import Measures, measures
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Problem
from quorate.views.table import Column, pairs, right, table, wide

Answers = Sequence[tuple[Policy, Allocation | Unsolved]]

NONE: Final = "-"
SHARE_MIN: Final = 5e-5
"""The smallest share that does not become 0 when it is rounded to four decimals."""


def number(value: float) -> str:
    """Return ``value`` for people, with six digits at most."""
    if math.isnan(value):
        return NONE
    return "never" if math.isinf(value) else f"{value:.6g}"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _by_flavor(problem: Problem, values: Floats) -> dict[str, float]:
    return dict(zip(problem.flavors, values.tolist(), strict=True))


def policies_text(policies: Iterable[Policy], *, show_wide: bool) -> str:
    """Return a line for each of ``policies``."""
    columns = (
        Column("POLICY"),
        Column("RUNS"),
        Column("GOAL"),
        wide("OBJECTIVE"),
        wide("READS"),
    )
    rows = [
        (each.name, _runs(each), each.goal, _objective(each), ", ".join(_reads(each)) or NONE)
        for each in policies
    ]
    return table(columns, rows, show_wide=show_wide)


def policies_tree(policies: Iterable[Policy]) -> list[dict[str, Any]]:
    """Return ``policies`` for programs."""
    return [
        {
            "name": each.name,
            "goal": each.goal,
            "objective": each.metric,
            "sense": "min" if each.is_least else "max",
            "reads": _reads(each),
            "jobs_max": each.jobs_max,
            "jobs_per_gpu_max": each.jobs_per_gpu_max,
        }
        for each in policies
    ]


def _objective(policy: Policy) -> str:
    return f"{policy.metric} ({'less' if policy.is_least else 'more'} is better)"


def _runs(policy: Policy) -> str:
    """Return the largest number of runs for which a pool uses ``policy``, as text."""
    if policy.jobs_max is None:
        return "any"
    each = policy.jobs_per_gpu_max
    return f"{policy.jobs_max}" if each is None else f"{policy.jobs_max}, {each} a GPU"


def _reads(policy: Policy) -> list[str]:
    flags = {
        "pairs": policy.reads_pairs,
        "entities": policy.reads_entities,
        "steps": policy.reads_steps,
        "costs": policy.reads_costs,
    }
    return [name for name, is_read in flags.items() if is_read]


def solution_text(policy: Policy, problem: Problem, found: Allocation, *, show_wide: bool) -> str:
    """Return an allocation as a table, under its value and the proof that the value is optimal."""
    head = [
        ("Policy", policy.name),
        ("Objective", f"{number(found.objective)}, {_objective(policy)}"),
        ("Certificate", _certificate(found)),
    ]
    if found.prices is not None:
        prices = _by_flavor(problem, found.prices)
        worth = ", ".join(f"{name} {number(price)}" for name, price in prices.items())
        head.append(("One more GPU", worth))
    if found.dropped:
        names = ", ".join(problem.jobs[job] for job in found.dropped)
        head.append(("Late", f"{names}: their deadlines cannot be kept together with the others"))
    if found.unfinished:
        jobs = len(found.unfinished)
        head.append(("Unsure", f"{jobs} of {len(problem.jobs)} jobs might have up to 1 % more"))
    return f"{pairs(head)}\n\n{_shares(problem, found, show_wide=show_wide)}"


def _certificate(found: Allocation) -> str:
    if math.isnan(found.bound):
        return f"none ({found.method}): the policy has no objective"
    return (
        f"no allocation is better than {number(found.bound)}, gap {found.gap:.2g} ({found.method})"
    )


def _shares(problem: Problem, found: Allocation, *, show_wide: bool) -> str:
    columns = [
        Column("JOB"),
        *(right(name.upper()) for name in problem.flavors),
        right("TIME"),
        right("STEPS/S"),
        right("GPUS", wide=True),
    ]
    rates = job_rates(problem, found)
    rows = [
        (
            key,
            *(f"{share:.4f}" if share >= SHARE_MIN else NONE for share in shares),
            f"{shares.sum():.4f}",
            number(rates[row]) if row < len(rates) else "",
            str(problem.scales[found.first[row]]),
        )
        for row, (key, shares) in enumerate(
            zip(row_keys(problem, found), found.shares, strict=True)
        )
    ]
    used = (problem.scales[found.first] @ found.shares).tolist()
    total = ("gpus used", *(f"{each:.4f}" for each in used), f"{sum(used):.4f}", "", "")
    return table(columns, [*rows, total], show_wide=show_wide)


def solution_tree(policy: Policy, problem: Problem, found: Allocation) -> dict[str, Any]:
    """Return an allocation for programs; an unknown number is null."""
    prices = None if found.prices is None else _by_flavor(problem, found.prices)
    return {
        "policy": policy.name,
        "allocation": allocation_tree(problem, found),
        "objective": _finite(found.objective),
        "metric": policy.metric,
        "sense": "min" if policy.is_least else "max",
        "certificate": {
            "bound": _finite(found.bound),
            "gap": _finite(found.gap),
            "method": found.method.value,
        },
        "prices": prices,
        "dropped": [problem.jobs[job] for job in found.dropped],
        "unfinished": [problem.jobs[job] for job in found.unfinished],
        "measures": _measures_tree(problem, measures(problem, found)),
    }


def _measures_tree(problem: Problem, measured: Measures) -> dict[str, Any]:
    return {
        "leastRelativeRate": _finite(measured.least_relative_rate),
        "finishTimeRatio": _finite(measured.finish_time_ratio),
        "makespanSeconds": _finite(measured.makespan_s),
        "stepsPerSecond": _finite(measured.rate_sum),
        "stepsPerCost": _finite(measured.rate_per_cost),
        "gpusUsed": _by_flavor(problem, measured.gpus_used),
    }


def comparison_text(problem: Problem, answers: Answers, *, show_wide: bool) -> str:
    """Return the values of the allocations of several policies, side by side."""
    columns: tuple[Column, ...] = (
        Column("POLICY"),
        right("LEAST RATE"),
        right("FINISH RATIO"),
        right("MAKESPAN S"),
        right("STEPS/S"),
        right("GPUS"),
        right("STEPS/COST", wide=True),
        right("OBJECTIVE", wide=True),
        right("GAP", wide=True),
        Column("REFUSED"),
    )
    rows = [_compared(problem, policy, found) for policy, found in answers]
    if not any(isinstance(found, Unsolved) for _, found in answers):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return table(columns, rows, show_wide=show_wide)


def _compared(problem: Problem, policy: Policy, found: Allocation | Unsolved) -> tuple[str, ...]:
    if isinstance(found, Unsolved):
        return (policy.name, *[NONE] * 8, found.message)
    measured = measures(problem, found)
    return (
        policy.name,
        number(measured.least_relative_rate),
        number(measured.finish_time_ratio),
        number(measured.makespan_s),
        number(measured.rate_sum),
        number(float(measured.gpus_used.sum())),
        number(measured.rate_per_cost),
        number(found.objective),
        NONE if found.method is Method.RULE else f"{found.gap:.2g}",
        "",
    )


def comparison_tree(problem: Problem, answers: Answers) -> list[dict[str, Any]]:
    """Return the values of the allocations of several policies, for programs."""
    found: list[dict[str, Any]] = []
    for policy, each in answers:
        if isinstance(each, Unsolved):
            found.append({"policy": policy.name, "refusal": refusal_tree(each)})
            continue
        tree = solution_tree(policy, problem, each)
        del tree["allocation"]
        found.append(tree)
    return found


def refusal_tree(refusal: Unsolved) -> Mapping[str, str]:
    """Return a refusal for programs."""
    return {
        "code": refusal.code.value,
        "subject": refusal.subject,
        "message": refusal.message,
        "remedy": refusal.remedy,
    }


def rates_text(found: ThroughputTable) -> str:
    """Return the contents of a table of rates, by flavor."""
    columns = (
        Column("FLAVOR"),
        right("TYPES"),
        right("CANNOT RUN"),
        right("PAIRS"),
        right("CANNOT SHARE"),
        right("SPREAD TYPES"),
        right("SPREAD PAIRS"),
    )
    rows = [tuple(map(str, row.values())) for row in _flavor_rows(found)]
    models = {each.model for each in found.types}
    scales = sorted({each.scale for each in found.types})
    head = [
        ("Types", f"{len(found.types)} of {len(models)} models"),
        ("GPUs of a job", ", ".join(map(str, scales)) or NONE),
    ]
    return f"{pairs(head)}\n\n{table(columns, rows)}"


def rates_tree(found: ThroughputTable) -> dict[str, Any]:
    """Return the contents and the gaps of a table of rates, for programs."""
    return {
        "types": len(found.types),
        "models": len({each.model for each in found.types}),
        "scales": sorted({each.scale for each in found.types}),
        "flavors": _flavor_rows(found),
        "missing": [gap.text() for gap in (*found.gaps(), *found.spread_gaps())],
    }


def _flavor_rows(found: ThroughputTable) -> list[dict[str, Any]]:
    together, spread = found.together, found.spread
    return [
        {
            "name": name,
            "types": int((~np.isnan(together.alone[:, column])).sum()),
            "cannotRun": int((together.alone[:, column] == 0).sum()),
            "pairs": int((~np.isnan(together.paired[:, column, 0])).sum()),
            "cannotShare": int((together.paired[:, column] == 0).any(axis=1).sum()),
            "spreadTypes": int((~np.isnan(spread.alone[:, column])).sum()),
            "spreadPairs": int((~np.isnan(spread.paired[:, column, 0])).sum()),
        }
        for column, name in enumerate(found.flavors)
    ]
