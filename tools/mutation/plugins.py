"""Plugins of a trial: they replace a module at import, and select tests."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, Phase, settings, stateful  # noqa: F401 - before the forks


class Finder:
    """Finds the mutated modules before other finders, and loads the mutated code."""

    def __init__(self, codes: dict[str, CodeType]) -> None:
        self.codes = codes

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return how to load ``name``; None for other modules."""
        code = self.codes.get(name)
        if code is None:
            return None
        return spec_from_file_location(
            name, code.co_filename, loader=_Ready(name, code.co_filename, code)
        )


class _Ready(SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> CodeType | None:
        assert fullname == self.name, fullname
        return self.code


class _Drawing:
    """The common part of all test runs: Hypothesis draws examples but does not shrink them."""

    def pytest_collection(self) -> None:
        """Load the profile after conftest.py has loaded its profile."""
        settings.register_profile(
            "mutation",
            settings.get_profile("quick"),
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=[HealthCheck.too_slow],
        )
        settings.load_profile("mutation")


class Chosen(_Drawing):
    """Runs the chosen tests in the given order, each with its time limit, and records a failure.

    The limit is processor time, so that a busy machine does not exceed it.
    """

    def __init__(self, limits_s: dict[str, float]) -> None:
        self.limits_s = limits_s
        self.ranks = {test: rank for rank, test in enumerate(limits_s)}
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen tests, in their order."""
        chosen = [item for item in items if item.nodeid in self.ranks]
        items[:] = sorted(chosen, key=lambda item: self.ranks[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Start the time limit of a test; the process ends when it is reached."""
        signal.setitimer(signal.ITIMER_PROF, self.limits_s[nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record which test failed."""
        if report.failed:
            self.failed = report.nodeid


class Watch(_Drawing):
    """Names the running test to the coverage tool, and records its processor time."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Name the running test to the coverage tool, and add up its processor time."""
        self.coverage.switch_context(item.nodeid)
        before = time.process_time()
        outcome = yield
        self.seconds[item.nodeid] += time.process_time() - before
        self.coverage.switch_context("")
        return outcome
