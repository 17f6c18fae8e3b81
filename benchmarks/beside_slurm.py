"""Compares submitting to Quorate with submitting to a real Slurm, on the same machine.

Both systems have one node of eight GPUs, all of which are taken, so every job is accepted and
waits. Equal clients are compared: a process for each job (``sbatch``, ``quorate submit`` and, for
comparison, ``curl``), and a long-running client (a C program on libslurm, and a keep-alive
connection of Python's httpx). ``curl`` is the counterpart of ``sbatch``: a small C program that
uses REST. In Slurm, one request can submit several jobs only as an array, which is one job until
its tasks start. Quorate's batches, which a program with many runs would send, are therefore
reported separately. The clients take turns, so that other work on the machine affects both systems
equally. Slurm keeps accepted jobs in memory and writes them to disk every few seconds. Quorate
answers after the run is on disk.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from compileall import compile_dir
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import httpx

import quorate as package
from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.service import declare
from benchmarks.serving import Served, quorate, served
from benchmarks.slurm import GPUS, NoSlurmError, Slurm, slurm
from quorate.adapters.clock_system import SystemClock
from quorate.documents import API_VERSION
from quorate.model.specs import Owner
from quorate.testing.builders import budget, envelope, node

TIMES_TARGET: Final = 5.0
BATCH: Final = 100
ROUNDS: Final = 3
OUT: Final = Path(__file__).parent / "out"
_ONE: Final = "{}, one at a time"
_TWO: Final = "{}, two at a time"

Tree = dict[str, Any]


def measure(effort: Effort) -> list[Figure]:
    """Return Quorate's submit rates, with Slurm's rates as baselines if Slurm is available."""
    OUT.mkdir(exist_ok=True)
    # Compile the package first, as pip does, so that no measured process compiles modules.
    compile_dir(Path(package.__file__).parent, quiet=2)
    with TemporaryDirectory(dir=OUT) as folder:
        try:
            with slurm(Path(folder)) as other, served(Path(folder)) as service:
                _declare(service)
                return _figures(_Race(other, service, Path(folder)), effort)
        except NoSlurmError as error:
            why = str(error)
    return [Figure(name="beside Slurm", unit="", value=0, better="more", details={"not run": why})]


def _declare(service: Served) -> None:
    now_ms = SystemClock().now_ms()
    day_ms = 24 * 3_600 * 1_000
    line = envelope("e", 1_000_000, start_ms=now_ms - day_ms, end_ms=now_ms + 90 * day_ms)
    declare(service.target, (node("n0", GPUS), Owner(name="team"), budget("b", "team", line)))


def _documents() -> Iterator[Tree]:
    """Yield Run documents without end, as small as the Slurm jobs."""
    for number in count():
        yield {
            "apiVersion": API_VERSION,
            "kind": "Run",
            "metadata": {"name": f"train-{number:07d}"},
            "spec": {
                "owner": "team",
                "user": "alice",
                "resources": {"gpuType": "H100", "totalGPUs": 1},
                "command": ["sleep", "3600"],
            },
        }


@dataclass(slots=True)
class _Race:
    """Both systems, whose clients take turns; rates are in jobs per second of wall time."""

    slurm: Slurm
    service: Served
    folder: Path
    documents: Iterator[Tree] = field(default_factory=_documents)
    rates: dict[str, list[float]] = field(default_factory=dict)

    def run(self, jobs: int, long_jobs: int) -> None:
        """Let the clients submit in turn, several times each."""
        self._submit_long(1, gpus=GPUS)
        for _ in range(ROUNDS):
            for at_once, name in ((1, _ONE), (2, _TWO)):
                self._note(name.format("sbatch"), jobs, self._sbatch, at_once)
                self._note(name.format("quorate submit"), max(2, jobs // 10), self._cli, at_once)
                if shutil.which("curl"):
                    self._note(name.format("curl"), jobs, self._curl, at_once)
            if self.slurm.client:
                self._add("libslurm", long_jobs, self.slurm.submit_all(long_jobs))
            self._add("httpx, one by one", long_jobs, self._submit_long(long_jobs))
            self._add("httpx, batches", long_jobs, self._submit_batches(long_jobs))

    def rate(self, client: str) -> float | None:
        """Return the median rate of ``client``; None if it did not run."""
        return median(self.rates[client]) if client in self.rates else None

    def _note(
        self, client: str, jobs: int, submit: Callable[[int], _Command], at_once: int
    ) -> None:
        commands = [submit(number) for number in range(jobs)]
        start = perf_counter()
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(_Command.run, commands))
        self._add(client, jobs, perf_counter() - start)

    def _add(self, client: str, jobs: int, seconds: float) -> None:
        self.rates.setdefault(client, []).append(jobs / seconds)

    def _sbatch(self, number: int) -> _Command:
        del number
        return _Command(self.slurm.sbatch(), self.slurm.environment)

    def _cli(self, number: int) -> _Command:
        path = self.folder / f"run-{number}.json"
        path.write_text(json.dumps(next(self.documents)))
        target = self.service.target
        environment = {
            **os.environ,
            "QUORATE_SERVER": f"http://{target.host}:{target.port}",
            "QUORATE_TOKEN": target.token,
        }
        return _Command(quorate("submit", "-f", str(path)), environment)

    def _curl(self, number: int) -> _Command:
        del number
        target = self.service.target
        command = [
            *("curl", "--silent", "--show-error", "--fail", "--output", "/dev/null"),
            *("--header", f"Authorization: Bearer {target.token}"),
            *("--header", "Content-Type: application/json"),
            *("--data", json.dumps({"document": next(self.documents)})),
            f"http://{target.host}:{target.port}/api/v1/runs",
        ]
        return _Command(command, dict(os.environ))

    def _submit_long(self, jobs: int, *, gpus: int = 1) -> float:
        bodies = [{"document": tree} for tree in islice(self.documents, jobs)]
        for body in bodies:
            body["document"]["spec"]["resources"]["totalGPUs"] = gpus
        return self._post("/api/v1/runs", bodies)

    def _submit_batches(self, jobs: int) -> float:
        batches = [list(islice(self.documents, BATCH)) for _ in range(jobs // BATCH)]
        return self._post("/api/v1/runs/batch", [{"documents": trees} for trees in batches])

    def _post(self, path: str, bodies: Sequence[Tree]) -> float:
        """Return the seconds of sending ``bodies``, each after the response to the one before."""
        target = self.service.target
        headers = {"Authorization": f"Bearer {target.token}"}
        url = f"http://{target.host}:{target.port}"
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            client.get("/healthz").raise_for_status()
            start = perf_counter()
            for body in bodies:
                client.post(path, json=body).raise_for_status()
            return perf_counter() - start


@dataclass(frozen=True, slots=True)
class _Command:
    """A process that submits one job."""

    line: list[str]
    environment: dict[str, str]

    def run(self) -> None:
        """Submit the job; raises if this fails."""
        done = subprocess.run(self.line, env=self.environment, check=False, capture_output=True)
        assert done.returncode == 0, (self.line[:3], done.stdout[-300:], done.stderr[-300:])


def _figures(race: _Race, effort: Effort) -> list[Figure]:
    jobs, long_jobs = effort.of(100, 8), effort.of(500, BATCH)
    race.run(jobs, long_jobs)
    told: dict[str, float | int | str] = {
        f"{name} /s": median(found) for name, found in race.rates.items()
    }
    told |= {"Slurm": race.slurm.version, "waiting in Slurm": race.slurm.waiting()}
    process = "a process for each job,"
    return [
        _times(
            race, f"{process} one at a time", _ONE.format("quorate submit"), _ONE.format("sbatch")
        ),
        _times(
            race, f"{process} two at a time", _TWO.format("quorate submit"), _TWO.format("sbatch")
        ),
        replace(
            _times(race, "a client that lives long", "httpx, batches", "libslurm"), details=told
        ),
    ]


def _times(race: _Race, name: str, ours: str, theirs: str) -> Figure:
    mine, other = race.rate(ours), race.rate(theirs)
    if mine is None or other is None:
        return Figure(name=name, unit="/s", value=mine or 0, better="more")
    return Figure(
        name=name,
        unit="/s",
        value=mine,
        better="more",
        target=TIMES_TARGET * other,
        baseline=Baseline(f"Slurm {race.slurm.version}: {theirs}", other),
    )
