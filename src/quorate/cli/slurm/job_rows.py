"""Shows runs as Slurm shows jobs: states, times, reasons, lists of nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from quorate.model.task_arrays import indexes_text

_STATES: Final = {
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Completed": "COMPLETED",
    "Cancelled": "CANCELLED",
    "Failed": "FAILED",
}
COMPACT: Final = {
    "PENDING": "PD",
    "RUNNING": "R",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
}
"""Maps the state of a job to the short form of this state."""
_REASONS: Final = {
    "waiting-for-upstream": "Dependency",
    "upstream-failed": "DependencyNeverSatisfied",
    "insufficient-capacity": "Resources",
    "no-nodes": "BadConstraints",
    "no-domain": "Resources",
}
_TIMED_OUT: Final = 124
"""The exit code of work that has reached its time limit."""
_NUMBERED: Final = re.compile(r"(.*?)(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A run as a job. Times are UTC. If ``limit_s`` is None, the job has no time limit."""

    run: str
    array: str | None
    tasks: tuple[int, ...]
    name: str
    user: str
    account: str
    partition: str
    state: str
    submitted: datetime
    started: datetime | None
    ended: datetime | None
    start_expected: datetime | None
    gpus: int
    flavor: str
    nodes: tuple[str, ...]
    reason: str
    limit_s: int | None
    exit_code: int
    command: str
    folder: str

    @property
    def job_id(self) -> str:
        """The job id: the name of the run, or ``sweep_[3-9]`` for waiting tasks in one row."""
        if len(self.tasks) < 2:  # noqa: PLR2004 - one task is a run
            return self.run
        return f"{self.array}_[{indexes_text(self.tasks)}]"

    def elapsed_s(self, now: datetime) -> int:
        """Return how many seconds the job ran until its end, or has run until ``now``."""
        if self.started is None:
            return 0
        return max(0, int(((self.ended or now) - self.started).total_seconds()))


def job_rows(
    runs: Iterable[Mapping[str, Any]], nodes_of: Mapping[str, Sequence[str]]
) -> list[JobRow]:
    """Return a row for each run; ``nodes_of`` has the nodes of running runs."""
    return [_row(run, tuple(nodes_of.get(run["metadata"]["name"], ()))) for run in runs]


def _row(run: Mapping[str, Any], nodes: tuple[str, ...]) -> JobRow:
    name, spec, status = run["metadata"]["name"], run["spec"], run["status"]
    env, resources = spec.get("env", {}), spec["resources"]
    array = spec.get("array")
    limit_s, code = _limit_s(spec.get("command", ())), _exit_code(status)
    state = _STATES[status["phase"]]
    if state == "FAILED" and code == _TIMED_OUT and limit_s is not None:
        state = "TIMEOUT"
    kinds = [resources["gpuType"]] if "gpuType" in resources else resources["gpuTypes"]
    return JobRow(
        run=name,
        array=None if array is None else array["name"],
        tasks=() if array is None else (array["task"],),
        name=env.get("SLURM_JOB_NAME", name),
        user=spec.get("user") or "-",
        account=spec["owner"],
        partition=spec.get("pool", "default"),
        state=state,
        submitted=instant(status["submitted"]),
        started=_maybe(status.get("started")),
        ended=_maybe(status.get("ended")),
        start_expected=_maybe((status.get("plan") or {}).get("start")),
        gpus=status["gpus"] or resources["totalGPUs"],
        flavor=kinds[0],
        nodes=nodes,
        reason=_reason(status),
        limit_s=limit_s,
        exit_code=code,
        command=" ".join(_own_words(spec.get("command", ()))),
        folder=spec.get("workingDir", ""),
    )


def instant(text: str) -> datetime:
    """Return the time in ``text``, in the format of documents."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _maybe(text: str | None) -> datetime | None:
    return None if text is None else instant(text)


def _own_words(command: Sequence[str]) -> Sequence[str]:
    """Return the command of a job without the words that ``quorate sbatch`` has added."""
    if list(command[:2]) != ["sh", "-c"] or list(command[3:4]) != ["sbatch"]:
        return command
    return command[7:] if command[4:5] and command[4] == "timeout" else command[4:]


def _limit_s(command: Sequence[str]) -> int | None:
    if list(command[3:5]) != ["sbatch", "timeout"]:
        return None
    return int(command[6].removesuffix("s"))


def _exit_code(status: Mapping[str, Any]) -> int:
    if status["phase"] != "Failed":
        return 0
    found = re.search(r"exited with code (\d+)", status.get("note", ""))
    return int(found[1]) if found else 1


def _reason(status: Mapping[str, Any]) -> str:
    if status["phase"] != "Pending":
        return "None"
    code = (status.get("refusal") or {}).get("code", "")
    return _REASONS.get(code, code) or "None"


def grouped(rows: Iterable[JobRow]) -> list[JobRow]:
    """Return ``rows``, with one row for all tasks of an array that wait for the same reason."""
    found: dict[tuple[str, ...], JobRow] = {}
    for row in rows:
        key: tuple[str, ...] = (row.run,)
        if row.state == "PENDING" and row.array is not None:
            key = (row.array, row.reason, row.user)
        first = found.get(key)
        found[key] = row if first is None else _joined(first, row)
    return list(found.values())


def _joined(first: JobRow, row: JobRow) -> JobRow:
    return replace(first, tasks=tuple(sorted((*first.tasks, *row.tasks))))


def span(seconds: int) -> str:
    """Return a duration as squeue writes it: ``5:03``, ``1:02:03`` or ``2-01:00:00``."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02d}:{minute:02d}:{second:02d}"
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


def full_span(seconds: int) -> str:
    """Return a duration as sacct writes it: ``00:05:03`` or ``2-01:00:00``."""
    hours, rest = divmod(seconds, 3_600)
    days, hour = divmod(hours, 24)
    text = f"{hour:02d}:{rest // 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def node_list(nodes: Iterable[str]) -> str:
    """Return the names of nodes as Slurm writes them: ``a[1-3,7],b9``."""
    bases: dict[tuple[str, int], list[int]] = {}
    parts: list[str] = []
    numbered: list[tuple[str, str]] = []
    for node in nodes:
        matched = _NUMBERED.fullmatch(node)
        if matched is None:
            parts.append(node)
        else:
            numbered.append((matched[1], matched[2]))
    padded = {(base, len(n)) for base, n in numbered if n.startswith("0") and n != "0"}
    for base, number in numbered:
        # 099 and 100 form one range: 100 has as many digits as a number with leading zeros.
        width = len(number) if (base, len(number)) in padded else 0
        bases.setdefault((base, width), []).append(int(number))
    for (base, width), numbers in bases.items():
        texts = [_padded(each, width) for each in indexes_text(sorted(numbers)).split(",")]
        single = len(texts) == 1 and "-" not in texts[0]
        parts.append(f"{base}{texts[0]}" if single else f"{base}[{','.join(texts)}]")
    return ",".join(sorted(parts))


def _padded(part: str, width: int) -> str:
    return "-".join(each.zfill(width) for each in part.split("-"))
