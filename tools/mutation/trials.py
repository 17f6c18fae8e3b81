"""Runs trials: records which test executes which line, and tries the tests of each mutant.

Trials run in forked processes on a copy of the project, so they never change the working tree, and
this process never imports the tested code. A mutant replaces its module at import; processes that a
test starts use the unchanged module.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Final

import pytest
from coverage import Coverage

from tools.mutation.mutants import Mutant
from tools.mutation.plugins import Chosen, Finder, Watch

PACKAGE: Final = "quorate"
# Trials leave out tests of the repository, which call git; tests of this tool, which would start
# this tool again; and examples of the help, which start processes.
_OPTIONS: Final = (
    *("-q", "-x", "--no-header", "--tb=no", "-m", "not soak and not slow"),
    *("-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    *("--ignore=tests/tidy", "--ignore=tests/unit/tools", "--ignore=tests/cli/test_help.py"),
    # Tests without servers cover the core at least as well.
    *("--ignore=tests/service", "--ignore=tests/client"),
)
_SIMULATION: Final = (
    "tests/dst/test_trials.py::test_a_system_in_which_everything_goes_wrong_stays_right"
)
_NOT_COPIED: Final = (".*", "__pycache__", "dist", "out", "htmlcov")
_FIRST_BATCH: Final = 30
_MEMORY_BYTES_MAX: Final = 6 << 30
_PASSED, _NOTICED, _SILENT = 0, 1, 2


class BrokenSuiteError(Exception):
    """The tests fail, or do not run, without a mutant."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one mutant: ``killed``, ``survived``, ``timeout`` or ``uncovered``."""

    mutant: Mutant
    verdict: str
    noticed_by: str
    seconds: float


class Ground:
    """A copy of a project in ``folder``, and the lines that its tests execute.

    With a mutant, a test may take four times its usual time plus ``patience_s``.
    """

    def __init__(self, root: Path, folder: Path, *, patience_s: float) -> None:
        self.patience_s = patience_s
        self.folder = folder / "copy"
        self.notes = folder / "notes"
        self.notes.mkdir()
        shutil.copytree(root, self.folder, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        self.source = self.folder / "src" / PACKAGE
        self.seconds: dict[str, float] = {}
        self.tests_at: dict[str, dict[int, set[str]]] = {}

    def parse(self, module: str) -> ast.Module:
        """Return the syntax tree of ``module``, a path below the package."""
        path = self.source / module
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))

    def learn(self, packages: Sequence[str], kept: Path) -> None:
        """Run every test once, and record its time and the lines of ``packages`` that it executes.

        The records are written to ``kept``, and read from there if no file has changed.
        """
        state = sha256(" ".join(packages).encode())
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            if path.is_relative_to(self.folder / "tools"):
                continue
            state.update(str(path.relative_to(self.folder)).encode() + path.read_bytes())
        learned = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        if learned.get("state") != state.hexdigest():
            note = self.notes / "learned"
            self._must_pass(lambda: self._instrumented(packages, note), "without any mutant")
            learned = {"state": state.hexdigest(), **json.loads(note.read_text(encoding="utf-8"))}
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(learned), encoding="utf-8")
        self.seconds = learned["seconds"]
        self.tests_at = {
            module: {int(line): set(tests) for line, tests in lines.items()}
            for module, lines in learned["tests_at"].items()
        }

    def tests_of(self, mutant: Mutant, budget_s: float) -> list[str]:
        """Return the tests that execute the mutant's lines, fastest first, up to ``budget_s``.

        Tests of the simulation come last: they catch mutants that no other test notices.
        """
        lines = self.tests_at.get(mutant.module, {})
        if mutant.imported:
            found = set().union(*lines.values())
        else:
            found = {
                t for line, ts in lines.items() if mutant.first <= line <= mutant.last for t in ts
            }
        chosen: list[str] = []
        for test in sorted(found, key=lambda test: (self.seconds[test], test)):
            budget_s -= self.seconds[test]
            if chosen and budget_s < 0:
                break
            chosen.append(test)
        if _SIMULATION in found and _SIMULATION not in chosen:
            chosen.append(_SIMULATION)
        return chosen

    def check_unchanged(self, trees: dict[str, ast.Module]) -> None:
        """Raise unless tests pass with each module replaced by an unchanged copy."""
        tests = {
            test
            for module in trees
            for test in sorted(
                set().union(*self.tests_at.get(module, {}).values()), key=self.seconds.__getitem__
            )[:_FIRST_BATCH]
        }
        note = self.notes / "unchanged"
        self._must_pass(
            lambda: self._try(trees, sorted(tests), note), "with unchanged modules put in place"
        )

    def start(self, mutant: Mutant, tree: ast.Module, tests: list[str], number: int) -> _Trial:
        """Start the trial of ``mutant``, a change of ``tree``, in a new process."""
        limit_s = ceil(self.patience_s + 4 * sum(self.seconds[test] for test in tests))
        note = self.notes / str(number)

        def run() -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
            mutant.change.put()
            return self._try({mutant.module: tree}, tests, note)

        pid = self._fork(run, Path(os.devnull))
        return _Trial(mutant, pid, note, time.monotonic(), time.monotonic() + 5 * limit_s)

    def _must_pass(self, job: Callable[[], int], when: str) -> None:
        log = self.notes / "log"
        pid = self._fork(job, log)
        try:
            status = os.waitpid(pid, 0)[1]
        finally:
            _end_group(pid)
        if os.waitstatus_to_exitcode(status) != _PASSED:
            said = log.read_text(encoding="utf-8", errors="replace")
            raise BrokenSuiteError(f"tests fail {when}:\n{said[-3000:]}")

    def _fork(self, job: Callable[[], int], log: Path) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        code = _SILENT
        try:
            os.setsid()
            os.chdir(self.folder)
            os.environ["PYTHONPATH"] = str(self.source.parent)
            os.environ["HYPOTHESIS_PROFILE"] = "quick"
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            # Compiled files of unchanged modules save most of the time of a trial.
            sys.dont_write_bytecode = False
            sys.path[:] = [str(self.source.parent), *(p for p in sys.path if p not in ("", "."))]
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            code = job()
            sys.stdout.flush()
        finally:
            os._exit(code)

    def _try(self, trees: dict[str, ast.Module], tests: list[str], note: Path) -> int:
        """Run ``tests`` with the modules replaced by ``trees``; return the exit code."""
        codes = {
            _dotted(m): compile(ast.fix_missing_locations(t), str(self.source / m), "exec")
            for m, t in trees.items()
        }
        sys.meta_path.insert(0, Finder(codes))
        for batch in (tests[:_FIRST_BATCH], tests[_FIRST_BATCH:]):
            chosen = Chosen({t: self.patience_s + 4 * self.seconds[t] for t in batch})
            files = dict.fromkeys(test.partition("::")[0] for test in batch)
            # A module that cannot be imported, and missing tests, also count as noticed.
            if batch and pytest.main([*_OPTIONS, *files], plugins=[chosen]) != pytest.ExitCode.OK:
                note.write_text(chosen.failed or "on import", encoding="utf-8")
                return _NOTICED
        return _PASSED

    def _instrumented(self, packages: Sequence[str], note: Path) -> int:
        sources = [str(self.source / package) for package in packages]
        coverage = Coverage(data_file=None, config_file=False, source=sources)
        coverage.start()
        watch = Watch(coverage)
        code = pytest.main([*_OPTIONS, "tests"], plugins=[watch])
        coverage.stop()
        data = coverage.get_data()
        tests_at = {
            Path(name).relative_to(self.source).as_posix(): {
                line: [test for test in tests if test]
                for line, tests in data.contexts_by_lineno(name).items()
            }
            for name in data.measured_files()
        }
        note.write_text(json.dumps({"seconds": watch.seconds, "tests_at": tests_at}), "utf-8")
        return _PASSED if code == pytest.ExitCode.OK else _NOTICED


@dataclass(frozen=True, slots=True)
class _Trial:
    mutant: Mutant
    pid: int
    note: Path
    started_s: float
    until_s: float

    def outcome(self, status: int) -> Outcome:
        code = os.waitstatus_to_exitcode(status)
        if code == _SILENT:
            raise BrokenSuiteError(f"the trial itself failed: {self.mutant}")
        verdict = "survived" if code == _PASSED else "killed"
        if code in (-signal.SIGPROF, -signal.SIGXCPU, -signal.SIGKILL):
            verdict = "timeout"
        noticed_by = self.note.read_text(encoding="utf-8") if self.note.exists() else ""
        return Outcome(self.mutant, verdict, noticed_by, time.monotonic() - self.started_s)


def run_trials(
    ground: Ground,
    chosen: Sequence[Mutant],
    trees: dict[str, ast.Module],
    *,
    jobs: int,
    budget_s: float,
) -> Iterator[Outcome]:
    """Yield the result of each mutant when it is known; ``jobs`` mutants are tried at a time."""
    waiting = list(enumerate(chosen))[::-1]
    running: dict[int, _Trial] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                number, mutant = waiting.pop()
                tests = ground.tests_of(mutant, budget_s)
                if not tests:
                    yield Outcome(mutant, "uncovered", "", 0.0)
                    continue
                trial = ground.start(mutant, trees[mutant.module], tests, number)
                running[trial.pid] = trial
            for pid, trial in list(running.items()):
                if time.monotonic() > trial.until_s:
                    os.kill(pid, signal.SIGKILL)
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    _end_group(pid)
                    yield running.pop(pid).outcome(status)
            time.sleep(0.01)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            _end_group(pid)


def _end_group(pid: int) -> None:
    """End the processes that the tests of a trial started and left behind."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _dotted(module: str) -> str:
    parts = [PACKAGE, *Path(module).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
