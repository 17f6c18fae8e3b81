"""``quorate simulate --compare``: compares policies, with one process per simulation."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import click

from quorate.cli.printing import print_tree
from quorate.cli.progress import Progress
from quorate.cli.settings import Settings
from quorate.cli.simulation.report_files import write_report
from quorate.cli.sources import read_bytes
from quorate.sim.compared_play import ComparedTask, compared_tasks, play_task
from quorate.sim.outcome import Outcome
from quorate.sim.report.compare import CannotCompareError, compare
from quorate.sim.scenario import Scenario, ScenarioError
from quorate.views.reports.comparison_forms import comparison_lines, comparison_tree


def simulate_comparison(
    settings: Settings,
    asked: Scenario,
    *,
    names: str,
    seeds: str,
    warm_up: float,
    processes: int,
    report: str | None,
) -> None:
    """Simulate every policy with every seed; print and write the differences."""
    tasks = compared_tasks(asked, [name.strip() for name in names.split(",")], seeds_of(seeds))
    outcomes = _played(tasks, processes)
    try:
        found = compare(outcomes, warm_up=warm_up)
    except CannotCompareError as error:
        raise ScenarioError("compare", str(error), "correct that") from None
    write_report(
        outcomes, title="Comparison", html=report, csv=None, parquet=None, comparison=found
    )
    if settings.is_table:
        click.echo("\n".join(comparison_lines(found)))
    else:
        print_tree(settings, comparison_tree(found))


def seeds_of(text: str) -> list[int]:
    """Return the seeds in a text such as ``0-4`` or ``1,5,7-9``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < 1 << 31):
            raise ScenarioError("seeds", f"has {part!r}", "write numbers and ranges, such as 0-4,7")
        found += range(int(first), int(last) + 1)
    return found


def _played(tasks: Sequence[ComparedTask], processes: int) -> list[Outcome]:
    """Return the outcome of each task, in order; outcomes do not depend on ``processes``."""
    asked = tasks[0].scenario
    files = {name: read_bytes(name) for name in (asked.throughputs, asked.trace) if name}
    # Processes are spawned, not forked, so that they inherit no open files.
    context = multiprocessing.get_context("spawn")
    with (
        Progress("simulations") as progress,
        ProcessPoolExecutor(min(processes, len(tasks)), mp_context=context) as pool,
    ):
        under_way = [pool.submit(play_task, task, files) for task in tasks]
        try:
            for done, each in enumerate(as_completed(under_way), start=1):
                each.result()
                progress.show(done / len(tasks), done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # An error ends the whole comparison.
            raise
        return [each.result() for each in under_way]
