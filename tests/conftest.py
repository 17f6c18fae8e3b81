"""Settings of all tests: the examples of Hypothesis, and the tests that run only on request.

``HYPOTHESIS_PROFILE`` chooses: ``ci`` (the default) draws the same examples each time, ``quick``
draws few of them, ``soak`` draws many new ones and also runs the tests marked ``soak``.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadFileScheduling, Scheduling  # type: ignore[import-untyped]

_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
_SOAK_S = 6 * 3_600
"""The time limit of one test in a soak; a test that takes longer hangs."""

# A slow machine is not a bug: examples have no deadline, and drawing one may take long. Each test
# has a time limit instead.
_ON_ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _ON_ANY_MACHINE, derandomize=True, max_examples=10)
settings.register_profile("quick", _ON_ANY_MACHINE, derandomize=True, max_examples=10)
settings.register_profile(
    "soak", _ON_ANY_MACHINE, derandomize=False, max_examples=5_000, print_blob=True
)
settings.load_profile(_PROFILE)

_HERE: Final = Path(__file__).parent
_TOGETHER: Final = ("kubernetes", "etcd")
"""Folders whose files share a server: one process runs all of them, so no test waits for it."""
_ALONE: Final = frozenset({"tests/etcd/test_faults.py"})
"""Files of these folders that have their own servers and wait for minutes: they run first."""
_LONGEST_FIRST: Final = (
    *_TOGETHER,
    "web",
    "tidy",
    "executor",
    "service",
    "waldur",
    "dst",
    "cli",
    "contract",
    "property",
)
"""Folders with slow files: they run first, so that no slow file is left for the end."""

# Collecting tests creates half a million permanent objects, which the collector would visit.
gc.disable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each process import other files first than the other processes.

    In a new checkout no file is compiled, and otherwise all processes would compile the same files
    at the same time. In this way each process finds most files compiled by the others. If an import
    fails here, it is repeated and reported when the tests are collected.
    """
    config = session.config
    worker = getattr(config, "workerinput", None)
    is_whole = [Path(each).resolve() for each in config.args] == [_HERE]
    if worker is None or not is_whole or config.option.markexpr:
        return
    names = [
        ".".join(path.relative_to(_HERE.parent).with_suffix("").parts)
        for path in sorted(_HERE.rglob("test_*.py"))
    ]
    for name in names[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):
            import_module(name)


def pytest_collection_finish() -> None:
    """Enable the garbage collector, without the objects that the collection of tests created."""
    gc.freeze()
    gc.enable()


class _ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Gives each process one file at a time, and all files that share a server to one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.split("/")[1]
        return folder if folder in _TOGETHER and file not in _ALONE else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Return the scheduler of ``make test``, or None if the command line asks for another."""
    return _ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def _turn(item: pytest.Item) -> int:
    if item.nodeid.partition("::")[0] in _ALONE:
        return -1
    folder = item.path.relative_to(_HERE).parts[0]
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked ``soak``; in the profile ``soak``, give each test hours."""
    items.sort(key=_turn)
    if _PROFILE == "soak":
        for item in items:
            # It takes precedence over a test's own limit, for the many examples of a soak.
            item.add_marker(pytest.mark.timeout(_SOAK_S), append=False)
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (kept if item.get_closest_marker("soak") is None else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
