"""Measures how many small wrong changes the tests detect, and fails if there are too few."""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tools.mutation.mutants import Mutant, find_mutants
from tools.mutation.trials import BrokenSuiteError, Ground, Outcome, run_trials
from tools.mutation.verdict import (
    AcceptedError,
    as_json,
    as_table,
    check_accepted,
    draw,
    one_line,
    read_accepted,
    score_percent,
)

_ROOT: Final = Path(__file__).resolve().parents[2]
_PACKAGES: Final = ("core", "ledger")
_TOLD_EVERY: Final = 25
_ACCEPTED: Final = "tools/mutation/accepted.toml"
_LINES: Final = ".build/mutation-lines.json"
_REPORT: Final = ".build/mutation.json"


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if the tests noticed enough mutants, 1 if too few, and 2 if this is unknown."""
    asked = _parser().parse_args(arguments)
    started_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="quorate-mutation-") as folder:
            outcomes, accepted = _measure(asked, Path(folder))
    except (BrokenSuiteError, AcceptedError) as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mutate: interrupted", file=sys.stderr)
        return 130
    report = asked.root / _REPORT
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(as_json(outcomes, seed=asked.seed, accepted=accepted), encoding="utf-8")
    print(as_table(outcomes))
    score = score_percent(outcomes)
    print(
        f"\n{score:.1f} % of {len(outcomes)} mutants noticed, {asked.at_least} % asked for; "
        f"{accepted} accepted and left out; {time.monotonic() - started_s:.0f} s; {_REPORT}"
    )
    if asked.accepted_only:
        return int(score > 0)
    return int(score < asked.at_least)


def _measure(asked: argparse.Namespace, folder: Path) -> tuple[list[Outcome], int]:
    ground = Ground(asked.root, folder, patience_s=asked.patience_s)
    modules = [
        path.relative_to(ground.source).as_posix()
        for package in _PACKAGES
        for path in sorted((ground.source / package).rglob("*.py"))
    ]
    if asked.only is not None and asked.only not in modules:
        raise BrokenSuiteError(f"--only {asked.only}: no such module; one of {', '.join(modules)}")
    trees = {module: ground.parse(module) for module in modules}
    found = [mutant for module in modules for mutant in find_mutants(module, trees[module])]
    accepted = read_accepted(asked.root / _ACCEPTED)
    check_accepted(accepted, found)
    wanted = [m for m in found if asked.only in (None, m.module)]
    if asked.accepted_only:
        chosen = [mutant for mutant in wanted if mutant.key in accepted]
    else:
        open_mutants = [mutant for mutant in wanted if mutant.key not in accepted]
        chosen = draw(open_mutants, total=asked.mutants, seed=asked.seed)
    _tell(f"{len(found)} mutants, {len(chosen)} drawn; finding the lines that each test executes")
    ground.learn(_PACKAGES, asked.root / _LINES)
    ground.check_unchanged({m.module: trees[m.module] for m in chosen})
    _tell(f"{len(ground.seconds)} tests, {sum(ground.seconds.values()):.0f} s")
    return _try_all(ground, chosen, trees, asked), len(accepted)


def _try_all(
    ground: Ground, chosen: list[Mutant], trees: dict[str, ast.Module], asked: argparse.Namespace
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for outcome in run_trials(ground, chosen, trees, jobs=asked.jobs, budget_s=asked.budget_s):
        outcomes.append(outcome)
        if outcome.verdict != "killed":
            _tell(f"{outcome.verdict}: {one_line(outcome)}")
        if len(outcomes) % _TOLD_EVERY == 0:
            _tell(f"{len(outcomes)} of {len(chosen)}, {score_percent(outcomes):.1f} % noticed")
    return sorted(outcomes, key=lambda o: (o.mutant.module, o.mutant.line, o.mutant.text))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=400, help="how many to draw (%(default)s)")
    parser.add_argument(
        "--only", metavar="MODULE", help="one module, such as core/admission/pack.py"
    )
    parser.add_argument("--seed", type=int, default=0, help="which sample to draw (%(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (%(default)s)")
    parser.add_argument(
        "--budget-s",
        type=float,
        default=30.0,
        help="seconds of tests for one mutant, fastest first (%(default)s)",
    )
    parser.add_argument(
        "--patience-s",
        type=float,
        default=5.0,
        help="seconds a test may take beyond four times the usual (%(default)s)",
    )
    parser.add_argument("--at-least", type=float, default=85.0, help="percent (%(default)s)")
    parser.add_argument(
        "--accepted-only", action="store_true", help="try what is accepted; none may be noticed"
    )
    parser.add_argument("--root", type=Path, default=_ROOT, help="the project (this one)")
    return parser


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
