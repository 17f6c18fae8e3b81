"""Reads ``#SBATCH`` lines and options of sbatch as a request for a run. Pure.

If an option is ignored, a remark says so. If the script would mean something else without the
option, the option is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.cli.slurm.mail_types import mail_remark, mailed_kinds
from quorate.cli.slurm.sbatch_options import FLAGS, Option, script_options
from quorate.cli.slurm.sbatch_words import (
    LEFT_OUT,
    PATHS,
    REFUSED,
    SILENT,
    VARIABLES,
    duration_text,
    seconds_of,
    split_outside,
)
from quorate.model.mail_address import is_address
from quorate.model.task_arrays import named_runs, read_array, tasks_text
from quorate.views.exits import CommandError, Exit

SCRIPT_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Script:
    """The request of a job; ``said`` has the remarks about the request, in order.

    ``limit_s`` is the time limit. The job waits until all runs in ``after`` have completed, and all
    runs in ``after_any`` are over. If ``is_singleton`` is true, the job also waits until all runs
    of the same user with the same job name are over. Each task of an array waits until, in each
    array of ``after_task``, the task with the same index has completed. ``mail_kinds`` is None if
    ``--mail-type`` was not given.
    """

    interpreter: tuple[str, ...] = ()
    wrapped: str | None = None
    asked: frozenset[str] = frozenset()
    tasks_of_array: str | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    limit_s: int | None = None
    after_any: tuple[str, ...] = ()
    after_task: tuple[str, ...] = ()
    is_singleton: bool = False
    is_all_copied: bool = False
    uses_srun: bool = False
    name: str | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    nodes: int | None = None
    tasks: int | None = None
    flavor: str | None = None
    duration: str | None = None
    team: str | None = None
    pool: str | None = None
    folder: str | None = None
    after: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    copied: tuple[str, ...] = ()
    mail_to: str | None = None
    mail_kinds: tuple[str, ...] | None = None
    said: list[str] = field(default_factory=list)

    def gpus_total(self) -> int | None:
        """Return the number of requested GPUs; None if the options do not state a number."""
        if self.gpus is not None:
            return self.gpus
        if self.gpus_per_node is not None:
            return self.gpus_per_node * (self.nodes or 1)
        if self.gpus_per_task is not None:
            return self.gpus_per_task * (self.tasks_total() or 1)
        return None

    def tasks_total(self) -> int | None:
        """Return how many processes srun would start in Slurm; None if no option says how many."""
        if self.tasks is not None or self.tasks_per_node is None:
            return self.tasks
        return self.tasks_per_node * (self.nodes or 1)


def read_script(
    text: str, name: str, typed: Sequence[Option] = (), given: Mapping[str, str] | None = None
) -> Script:
    """Return the request of the script ``text`` and the ``typed`` options.

    Typed options take precedence. ``given`` maps options of sbatch to options of Quorate that were
    given instead: the values of these sbatch options in the script are ignored. Raises
    ``CommandError`` with all refused options.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#!"):
        raise CommandError(
            Exit.INVALID,
            f"{name}:1: must begin with #! and an interpreter, such as #!/bin/bash",
        )
    script = Script(interpreter=tuple(shlex.split(lines[0].removeprefix("#!"))) or ("sh",))
    typed_keys = {option.key for option in typed}
    written: list[Option] = []
    for option in script_options(lines, name):
        if given and option.key in given:
            script.said.append(f"{option.where}: left out, because {given[option.key]} is given")
        elif option.key not in typed_keys:
            written.append(option)
    _take_all(script, [*written, *typed])
    _warn_of_slurm(script, lines, name)
    return script


def read_wrapped(command: str, typed: Sequence[Option]) -> Script:
    """Return the request of the ``typed`` options, with the command of ``--wrap``."""
    script = Script(wrapped=command)
    _take_all(script, typed)
    _warn_of_slurm(script, [command], "--wrap")
    return script


def _take_all(script: Script, options: Sequence[Option]) -> None:
    faults: list[str] = []
    for option in options:
        if option.key in REFUSED:
            faults.append(f"{option.where}: is not supported; {REFUSED[option.key]}")
            continue
        try:
            _take(script, option)
        except ValueError as error:
            faults.append(f"{option.where}: {error}")
    if script.after_task and script.tasks_of_array is None:
        faults.append(
            "--dependency=aftercorr: is for arrays: a task follows the task with the same index; "
            "add --array, or write afterok"
        )
    if faults:
        raise CommandError(Exit.INVALID, *faults)
    remark = mail_remark(script.mail_to, script.mail_kinds)
    script.said += [remark] if remark else []
    script.asked = frozenset(option.key for option in options)


def _take(script: Script, option: Option) -> None:
    if option.key in SILENT or option.key == "wrap":
        return
    reader = _READ.get(option.key)
    if reader is None:
        why = LEFT_OUT.get(option.key, "the option is unknown")
        script.said.append(f"{option.where}: left out: {why}")
        return
    note = reader(script, option.value)
    if note:
        script.said.append(f"{option.where}: {note}")


def _warn_of_slurm(script: Script, lines: list[str], name: str) -> None:
    """Add a remark for each use of a Slurm variable that is not set; store if srun is called."""
    unset = {"SLURM_GPUS_PER_NODE"} if (script.nodes or 1) > 1 else set()
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("#"):
            continue
        for variable in sorted(set(re.findall(r"\$\{?(SLURM_\w+)", line)) - (VARIABLES - unset)):
            script.said.append(f"{name}:{number}: Quorate does not set {variable} for this job")
        script.uses_srun = script.uses_srun or calls_srun(line)


def calls_srun(text: str) -> bool:
    """Return whether a line of a script, or a wrapped command, calls srun."""
    return re.search(r"(^|[\s;&|(])srun(\s|$)", text) is not None


def _whole(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"must be a whole number from 1 on, got {value!r}")
    return int(value)


def _count(script: Script, value: str) -> int:
    """Return N of ``[TYPE:]N``, and store TYPE as the flavor; raises ``ValueError``."""
    kind, colon, count = value.rpartition(":")
    if colon:
        if script.flavor is not None and script.flavor.lower() != kind.lower():
            raise ValueError(f"requests {kind}, but an earlier option requests {script.flavor}")
        script.flavor = kind
    return _whole(count)


def _read_gpus(script: Script, value: str) -> str:
    script.gpus = _count(script, value)
    return ""


def _read_gpus_per_node(script: Script, value: str) -> str:
    script.gpus_per_node = _count(script, value)
    return ""


def _read_gpus_per_task(script: Script, value: str) -> str:
    script.gpus_per_task = _count(script, value)
    return ""


def _read_gres(script: Script, value: str) -> str:
    others: list[str] = []
    for each in value.split(","):
        kind, _, rest = each.partition(":")
        if kind not in ("gpu", "gres/gpu"):
            others.append(each)
            continue
        # The part in parentheses names sockets, which only Slurm has.
        wanted = re.sub(r"\(.*\)$", "", rest) or "1"
        is_kind = not wanted.rpartition(":")[2].isdecimal()
        script.gpus_per_node = _count(script, f"{wanted}:1" if is_kind else wanted)
    return f"{','.join(others)}: left out: only GPUs are counted" if others else ""


def _read_nodes(script: Script, value: str) -> str:
    low, dash, _ = value.partition("-")
    script.nodes = _whole(low)
    note = f"read as {low}, because a run has a fixed number of GPUs; " if dash else ""
    if script.nodes > 1:
        note += "does not fix the number of nodes; see SLURM_NNODES"
    return note.removesuffix("; ")


def _read_tasks(script: Script, value: str) -> str:
    script.tasks = _whole(value)
    return "is used only with --gpus-per-task: the script is started once"


def _read_tasks_per_node(script: Script, value: str) -> str:
    script.tasks_per_node = _whole(value)
    return "is used only with --gpus-per-task: the script is started once"


def _read_cpus(script: Script, value: str) -> str:
    script.cpus_per_task = _whole(value)
    return "only sets SLURM_CPUS_PER_TASK: cores are not counted"


def _read_array(script: Script, value: str) -> str:
    script.tasks_of_array = tasks_text(read_array(value))
    return ""


def _read_time(script: Script, value: str) -> str:
    if value.upper() in ("INFINITE", "UNLIMITED", "0"):
        return "means no limit; give the expected duration of the run with --for"
    script.limit_s = seconds_of(value)
    script.duration = duration_text(script.limit_s)
    return ""


def _read_name(script: Script, value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    script.name = value
    return ""


def _read_account(script: Script, value: str) -> str:
    script.team = value
    return ""


def _read_partition(script: Script, value: str) -> str:
    if "," in value:
        raise ValueError("names several partitions; a run is in one pool, so name one")
    script.pool = value
    return f"taken as pool {value!r}"


def _read_folder(script: Script, value: str) -> str:
    script.folder = value
    return ""


def _read_dependency(script: Script, value: str) -> str:
    how = "write afterok:RUN[:RUN...], afterany:RUN[:RUN...], aftercorr:ARRAY or singleton"
    after: dict[str, dict[str, None]] = {"afterok": {}, "afterany": {}, "aftercorr": {}}
    for each in split_outside(value, ","):
        kind, _, runs = each.partition(":")
        if kind == "singleton" and not runs:
            script.is_singleton = True
        elif kind not in after or not runs or "?" in each or "+" in runs:
            raise ValueError(f"{each!r}: is not supported; {how}")
        elif kind == "aftercorr" and "[" in runs:
            raise ValueError(f"{each!r}: is not supported; name the whole array")
        else:
            for name in split_outside(runs, ":"):
                after[kind] |= dict.fromkeys(named_runs(name.removeprefix("run/")))
    script.after, script.after_any, script.after_task = map(tuple, after.values())
    return ""


def _read_mail_user(script: Script, value: str) -> str:
    if not is_address(value):
        return f"left out: {value!r} is not a mail address; write NAME@DOMAIN"
    script.mail_to = value
    return ""


def _read_mail_type(script: Script, value: str) -> str:
    script.mail_kinds, note = mailed_kinds(value)
    return note


def _read_export(script: Script, value: str) -> str:
    copied: list[str] = []
    note = ""
    for each in value.split(","):
        name, equals, text = each.partition("=")
        if equals:
            script.env[name] = text
        elif name == "ALL":
            script.is_all_copied = True
            note = (
                f"ALL: only {', '.join(PATHS)} are copied: a run's variables are recorded for ever"
            )
        elif name not in ("NONE", "NIL"):
            copied.append(name)
    script.copied = tuple(copied)
    return note


_READ: Final[dict[str, Callable[[Script, str], str]]] = {
    "job-name": _read_name,
    "gpus": _read_gpus,
    "gpus-per-node": _read_gpus_per_node,
    "gpus-per-task": _read_gpus_per_task,
    "gres": _read_gres,
    "nodes": _read_nodes,
    "ntasks": _read_tasks,
    "ntasks-per-node": _read_tasks_per_node,
    "cpus-per-task": _read_cpus,
    "array": _read_array,
    "time": _read_time,
    "account": _read_account,
    "partition": _read_partition,
    "chdir": _read_folder,
    "workdir": _read_folder,
    "dependency": _read_dependency,
    "export": _read_export,
    "mail-user": _read_mail_user,
    "mail-type": _read_mail_type,
}
"""Maps each option to the function that reads its value, and returns a remark or an empty text."""
KNOWN: Final = frozenset({*_READ, *LEFT_OUT, *REFUSED, *SILENT, *FLAGS, "wrap"})
"""Every option of sbatch that Quorate knows."""
