"""Makes the Run document of a batch job: command, time limit, variables and array.

Pure: names, the environment and the folder are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from quorate.cli.slurm.sbatch_script import Script
from quorate.cli.slurm.sbatch_words import PATHS
from quorate.client.run_document import Work
from quorate.model.specs import DEFAULT_POOL

KILL_AFTER_S: Final = 30
"""How long work that has reached its limit may take to stop before it is killed."""
PROLOGUE: Final = (
    'export SLURM_JOB_ID="$QUORATE_RUN" SLURM_JOBID="$QUORATE_RUN" SLURM_NNODES="$NNODES" '
    'SLURM_JOB_NUM_NODES="$NNODES" SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0 '
    'SLURM_RESTART_COUNT="$((${QUORATE_GENERATION:-1} - 1))" SLURMD_NODENAME="$QUORATE_NODE" '
    'SLURM_JOB_GPUS="${CUDA_VISIBLE_DEVICES-}"; '
    'if [ -n "$SLURM_JOB_GPUS" ]; then IFS=,; n=0; for each in $SLURM_JOB_GPUS; do n=$((n + 1)); '
    'done; unset IFS; export SLURM_GPUS_ON_NODE="$n"; fi; '
    'if [ -n "${QUORATE_ARRAY_TASK_ID-}" ]; then '
    'export SLURM_ARRAY_JOB_ID="$QUORATE_ARRAY" SLURM_ARRAY_TASK_ID="$QUORATE_ARRAY_TASK_ID" '
    'SLURM_ARRAY_TASK_COUNT="$QUORATE_ARRAY_TASK_COUNT" '
    'SLURM_ARRAY_TASK_MIN="$QUORATE_ARRAY_TASK_MIN" '
    'SLURM_ARRAY_TASK_MAX="$QUORATE_ARRAY_TASK_MAX"; fi; exec "$@"'
)
"""Shell commands that set the variables whose values are known only when the job starts.

They run on the job's node. ``SLURM_GPUS_ON_NODE`` is not set if there is no list of GPUs, as in a
pod.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job to submit. ``words`` are its command; ``name`` is the name of its run or array."""

    script: Script
    name: str
    words: tuple[str, ...]
    gpus: int
    team: str
    flavors: tuple[str, ...]
    folder: str
    pool: str | None
    duration: str | None
    env: Mapping[str, str]
    singleton_after: tuple[str, ...] = ()


def document_of(job: Job) -> dict[str, Any]:
    """Return the Run document of ``job``; an array is one document."""
    script = job.script
    return Work(
        gpus=job.gpus,
        team=job.team,
        flavors=job.flavors,
        command=_command(job),
        name=job.name,
        duration=job.duration,
        env=job.env,
        folder=job.folder,
        after=script.after,
        after_any=tuple(dict.fromkeys((*script.after_any, *job.singleton_after))),
        after_task=script.after_task,
        array=script.tasks_of_array,
        pool=job.pool,
        mail=script.mail_to if script.mail_kinds else None,
        mail_kinds=script.mail_kinds or (),
        processes="run",  # As in Slurm, the script is started once for all tasks.
    ).document()


def _command(job: Job) -> list[str]:
    limit_s = job.script.limit_s
    limit = [] if limit_s is None else ["timeout", f"--kill-after={KILL_AFTER_S}s", f"{limit_s}s"]
    prologue = f"{_with_srun()}{PROLOGUE}" if job.script.uses_srun else PROLOGUE
    return ["sh", "-c", prologue, "sbatch", *limit, *job.words]


def _with_srun() -> str:
    """Return shell commands that install ``srun.sh`` as ``srun``, first in the PATH of the job.

    Only jobs that call srun get these commands, because the ledger keeps the command of a run for
    ever.
    """
    program = files("quorate.cli.slurm").joinpath("srun.sh").read_text(encoding="utf-8")
    return (
        'bin="${QUORATE_FOLDER:-$(mktemp -d)}/bin" && mkdir -p "$bin" && '
        f"cat >\"$bin/srun\" <<'END_OF_SRUN'\n{program}END_OF_SRUN\n"
        'chmod 755 "$bin/srun" && export PATH="$bin:$PATH"\n'
    )


def variables_of(
    script: Script, environ: Mapping[str, str], *, job_name: str, submit_dir: str, team: str
) -> dict[str, str]:
    """Return the job's environment variables that are known at submission.

    Variables that ``--export`` sets take precedence. If ``--export`` names a variable that is not
    set in this shell, a remark is added to ``script.said``.
    """
    found = {name: environ[name] for name in PATHS if script.is_all_copied and name in environ}
    for name in script.copied:
        if name in environ:
            found[name] = environ[name]
        else:
            script.said.append(f"--export: {name}: is not set in this shell, so it is not copied")
    gpus, tasks = script.gpus_total(), script.tasks_total()
    stated: dict[str, int | str | None] = {
        "SLURM_JOB_NAME": job_name,
        "SLURM_SUBMIT_DIR": submit_dir,
        "SLURM_JOB_ACCOUNT": team,
        "SLURM_JOB_PARTITION": script.pool or DEFAULT_POOL,
        "SLURM_GPUS": gpus,
        # If several nodes are requested, the run may get fewer, with more GPUs on each.
        "SLURM_GPUS_PER_NODE": script.gpus_per_node if script.nodes in (None, 1) else None,
        "SLURM_GPUS_PER_TASK": script.gpus_per_task,
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": script.tasks_per_node,
        "SLURM_CPUS_PER_TASK": script.cpus_per_task,
    }
    found |= {name: str(value) for name, value in stated.items() if value is not None}
    return {**found, **script.env}


def job_words(script: Script, path: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command of a job: interpreter and script, or a shell that runs ``--wrap``."""
    if script.wrapped is not None:
        return ("sh", "-c", script.wrapped)
    return (*script.interpreter, path, *arguments)
