"""What every test shares: how hard Hypothesis tries, and which tests are asked for by name only.

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
"""How long one test of a soak may take; it is hung after that."""

# A slow machine is not a bug, so no example has a deadline, and drawing one may take long; each
# test has a time limit.
_ON_ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _ON_ANY_MACHINE, derandomize=True, max_examples=10)
settings.register_profile("quick", _ON_ANY_MACHINE, derandomize=True, max_examples=10)
settings.register_profile(
    "soak", _ON_ANY_MACHINE, derandomize=False, max_examples=5_000, print_blob=True
)
settings.load_profile(_PROFILE)

_HERE: Final = Path(__file__).parent
_TOGETHER: Final = ("kubernetes", "etcd")
"""The folders whose files share a server: one process has it, and no test waits for another's."""
_ALONE: Final = frozenset({"tests/etcd/test_faults.py"})
"""Files of those folders that have servers of their own, and wait for minutes: they begin first."""
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
"""The folders with files that take long; those begin first, so that no process is left with one."""

# Reading all files makes half a million objects that stay; a third of its time is visiting them.
gc.disable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have each of several processes begin with other files than the rest.

    In a new checkout nothing is compiled: all processes would compile every file, side by side.
    So each one finds most of the compiled files of the others. What cannot be imported here is
    imported again, and reported, when the tests are collected.
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
    """Have the collector run again, without what was made while all files were read."""
    gc.freeze()
    gc.enable()


class _ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Gives each process file by file, and files that share a server all to one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.split("/")[1]
        return folder if folder in _TOGETHER and file not in _ALONE else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Return how ``make test`` divides the tests, or None where another way was asked for."""
    return _ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def _turn(item: pytest.Item) -> int:
    if item.nodeid.partition("::")[0] in _ALONE:
        return -1
    folder = item.path.relative_to(_HERE).parts[0]
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked ``soak``, or, where the profile asks for them, give all hours."""
    items.sort(key=_turn)
    if _PROFILE == "soak":
        for item in items:
            # In front of the limit that a test may have of its own: fifty times the examples.
            item.add_marker(pytest.mark.timeout(_SOAK_S), append=False)
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (kept if item.get_closest_marker("soak") is None else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
