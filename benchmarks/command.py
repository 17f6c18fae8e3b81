"""The time a user waits for a command in a fresh process.

The benchmark measures ``quorate --help``, commands that call a service, errors of these commands,
and the completion of names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.serving import quorate, served

HELP_MS_MAX: Final = 100.0
ASKING_MS_MAX: Final = 120.0
_FLEET: Final = """\
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: n1, labels: {region: r, cluster: c, fabric.domain: d}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: vision}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: vision}
spec:
  owner: vision
  envelopes:
    - {name: e, flavor: H100, selector: {region: r}, concurrency: 8,
       start: 2020-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}
"""
_SUBMIT: Final = ("submit", "--gpus", "1", "--flavor", "H100")
_ASKING: Final[tuple[tuple[str, Sequence[str], int], ...]] = (
    ("quorate get runs", ("get", "runs"), 0),
    ("quorate get, an error", ("get", "run", "nothing"), 1),
    ("quorate submit", (*_SUBMIT, "--team", "vision", "--", "true"), 0),
    ("quorate submit, an error", (*_SUBMIT, "--team", "nobody", "--", "true"), 1),
)
"""The commands, and their exit codes."""


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU times of commands, including imports and the interpreter's start."""
    repeats = effort.of(11, 3)
    # The first run compiles the modules, as an installation does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    nothing = [sys.executable, "-c", "pass"]
    bare = median(_child_ms(nothing, os.environ) for _ in range(repeats))
    helps = [_child_ms(quorate("--help"), os.environ) for _ in range(repeats)]
    found = [_figure("quorate --help", helps, HELP_MS_MAX, bare)]
    with TemporaryDirectory() as name, served(Path(name)) as service:
        environ = {
            **os.environ,
            "QUORATE_SERVER": f"http://{service.target.host}:{service.target.port}",
            "QUORATE_TOKEN": service.target.token,
        }
        (Path(name) / "fleet.yaml").write_text(_FLEET)
        _child_ms(quorate("apply", "-f", str(Path(name) / "fleet.yaml")), environ)
        for what, words, code in _ASKING:
            times = [_child_ms(quorate(*words), environ, code) for _ in range(repeats)]
            found.append(_figure(what, times, ASKING_MS_MAX, bare))
        pressed = {
            "_QUORATE_COMPLETE": "bash_complete",
            "COMP_WORDS": "quorate get runs ",
            "COMP_CWORD": "3",
        }
        program = [sys.executable, "-c", _NAMED]
        times = [_child_ms(program, environ | pressed) for _ in range(repeats)]
        found.append(_figure("quorate, completion of names", times, ASKING_MS_MAX, bare))
    return found


_NAMED: Final = "import sys; sys.argv = ['quorate']; from quorate.cli.program import run; run()"
"""Runs ``quorate`` under the name that shells call for completions."""


def _figure(name: str, times_ms: Sequence[float], target: float, bare_ms: float) -> Figure:
    return Figure(
        name=name,
        unit="ms",
        value=median(times_ms),
        better="less",
        target=target,
        baseline=Baseline("python that does nothing", bare_ms),
        details={"least ms": min(times_ms), "most ms": max(times_ms)},
    )


def _child_ms(command: Sequence[str], environ: Mapping[str, str], code: int = 0) -> float:
    """Return the CPU milliseconds of one run of ``command``, which must exit with ``code``."""
    before = getrusage(RUSAGE_CHILDREN)
    ended = subprocess.run(
        command, check=False, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    after = getrusage(RUSAGE_CHILDREN)
    if ended.returncode != code:
        raise RuntimeError(
            f"{' '.join(command[3:])} ended with {ended.returncode}: {ended.stderr!r}"
        )
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
