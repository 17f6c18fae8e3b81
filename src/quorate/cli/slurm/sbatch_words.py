"""Tables of sbatch's variables, and of its refused and ignored options; readers of times."""

from __future__ import annotations

import re
from typing import Final

PATHS: Final = (
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
)
"""The variables that ``--export=ALL`` copies: search paths, and no secrets."""
VARIABLES: Final = frozenset(
    f"SLURM_{name}"
    for name in (
        *("JOB_ID", "JOBID", "JOB_NAME", "JOB_ACCOUNT", "JOB_PARTITION", "SUBMIT_DIR"),
        *("NNODES", "JOB_NUM_NODES", "NODEID", "PROCID", "LOCALID", "RESTART_COUNT", "JOB_GPUS"),
        *("NTASKS", "NPROCS", "NTASKS_PER_NODE", "CPUS_PER_TASK", "GPUS", "GPUS_PER_NODE"),
        *("GPUS_ON_NODE", "GPUS_PER_TASK"),
        *("ARRAY_JOB_ID", "ARRAY_TASK_ID", "ARRAY_TASK_COUNT", "ARRAY_TASK_MIN", "ARRAY_TASK_MAX"),
    )
)
"""The ``SLURM_`` variables of a job; see docs/reference/sbatch.md."""
REFUSED: Final = {
    "begin": "a run starts as soon as it can; submit it when it may start",
    "hold": "a run starts as soon as it can; submit it when it may start",
    "clusters": "choose the service with --context",
    "deadline": "runs have no deadline; remove it",
    "gpus-per-socket": "sockets are not supported; write --gpus or --gpus-per-node",
    "input": "standard input is empty; read the file in the script",
}
"""Maps each option to the remedy, if the meaning of a script would change without the option."""
LEFT_OUT: Final = {
    "output": "the executor keeps the output; read it with: quorate logs RUN",
    "error": "the executor keeps the output; read it with: quorate logs RUN",
    "mem": "runs are placed by GPUs; memory is not counted",
    "mem-per-cpu": "runs are placed by GPUs; memory is not counted",
    "mem-per-gpu": "runs are placed by GPUs; memory is not counted",
    "cpus-per-gpu": "runs are placed by GPUs; cores are not counted",
    "mincpus": "runs are placed by GPUs; cores are not counted",
    "qos": "there are no priorities; budgets decide",
    "nice": "there are no priorities; budgets decide",
    "priority": "there are no priorities; budgets decide",
    "constraint": "name the kind of GPU with --flavor",
    "nodelist": "nodes are chosen for you",
    "exclude": "nodes are chosen for you; cordon broken nodes",
    "exclusive": "to get whole nodes, request all of their GPUs",
    "requeue": "a run that is cut returns to the queue",
    "no-requeue": "a run that is cut returns to the queue",
    "signal": "a run that has to stop gets SIGTERM and its grace period",
    "wait": "sbatch returns at once; wait with: quorate watch RUN",
    "licenses": "licences are not counted",
    "distribution": "Quorate does not assign ranks; start processes in the script",
    "comment": "runs have no comment; use a descriptive name",
    "time-min": "a run has one limit, --time",
    "open-mode": "the executor keeps the output; read it with: quorate logs RUN",
    "tmp": "runs are placed by GPUs; disks are not counted",
    "spread-job": "nodes are chosen for you",
    "use-min-nodes": "nodes are chosen for you",
    "contiguous": "nodes are chosen for you; GPUs of one group stay in one domain",
    "overcommit": "cores are not counted",
    "oversubscribe": "GPUs are not shared between runs",
    "gpu-bind": "a run sees only its own GPUs",
    "cpu-bind": "cores are not counted",
    "reservation": "Quorate makes reservations itself",
}
"""Maps each ignored option to the reason why it is ignored, or to what to use instead."""
SILENT: Final = frozenset({"quiet", "verbose", "ignore-pbs", "parsable", "test-only"})
"""Options about the behaviour of sbatch itself, which are ignored without a remark."""


def split_outside(text: str, mark: str) -> list[str]:
    """Return ``text``, split at each ``mark`` that is outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def seconds_of(value: str) -> int:
    """Return a Slurm time in seconds: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", value)
    if found is None:
        raise ValueError(f"must be a time such as 90, 1:30:00 or 2-12:00, got {value!r}")
    days, *rest = found.groups()
    parts = [int(each) for each in rest if each is not None]
    units: tuple[int, ...] = (3_600, 60, 1)
    if days is None:
        units = units[-len(parts) :] if len(parts) > 1 else (60,)
    seconds = int(days or 0) * 86_400 + sum(
        part * unit for part, unit in zip(parts, units, strict=False)
    )
    if seconds == 0:
        raise ValueError("must be more than 0; for no limit, remove the option")
    return seconds


def duration_text(seconds: int) -> str:
    """Return ``seconds`` as a duration in documents, in the largest unit that is exact."""
    for unit, length in (("h", 3_600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
