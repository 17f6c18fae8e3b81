"""Scripts as Slurm takes them: what their ``#SBATCH`` lines ask for, in our words. Pure.

Whatever is not carried over is said, line by line. What would change the meaning of a script if it
were left out is refused instead.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.views.exits import CommandError, Exit

SCRIPT_BYTES_MAX: Final = 4 * 1024 * 1024
_MARK: Final = "#SBATCH"
_SHORT: Final = {
    "A": "account",
    "C": "constraint",
    "D": "chdir",
    "G": "gpus",
    "H": "hold",
    "J": "job-name",
    "L": "licenses",
    "M": "clusters",
    "N": "nodes",
    "a": "array",
    "b": "begin",
    "c": "cpus-per-task",
    "d": "dependency",
    "e": "error",
    "i": "input",
    "m": "distribution",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
_FLAGS: Final = frozenset(
    {"exclusive", "hold", "requeue", "no-requeue", "contiguous", "overcommit", "parsable", "wait"}
    | {"spread-job", "use-min-nodes", "verbose", "quiet", "ignore-pbs", "oversubscribe"}
)
"""Options that take no value, or none that must be there."""
_REFUSED: Final = {
    "array": "one submit is one run; submit each task by itself, with its number as an argument",
    "begin": "a run starts as soon as it can; submit it when it may start",
    "hold": "a run starts as soon as it can; submit it when it may start",
    "wrap": "give a script, or: quorate submit -- COMMAND",
    "clusters": "choose the service with --context",
    "deadline": "there is no deadline; leave the line out",
}
"""What would change the meaning of a script if it were left out -> what to do."""
_LEFT_OUT: Final = {
    "output": "the executor keeps the output; read it with: quorate logs RUN",
    "error": "the executor keeps the output; read it with: quorate logs RUN",
    "mem": "runs are placed by GPUs; memory is not counted",
    "mem-per-cpu": "runs are placed by GPUs; memory is not counted",
    "mem-per-gpu": "runs are placed by GPUs; memory is not counted",
    "cpus-per-task": "runs are placed by GPUs; cores are not counted",
    "cpus-per-gpu": "runs are placed by GPUs; cores are not counted",
    "mincpus": "runs are placed by GPUs; cores are not counted",
    "qos": "there are no priorities; budgets decide",
    "nice": "there are no priorities; budgets decide",
    "priority": "there are no priorities; budgets decide",
    "mail-type": "no mail is sent; follow it with: quorate watch RUN",
    "mail-user": "no mail is sent; follow it with: quorate watch RUN",
    "constraint": "name the kind of GPU with --flavor",
    "nodelist": "nodes are chosen for you",
    "exclude": "nodes are chosen for you; cordon those that are broken",
    "exclusive": "whether a run has whole nodes is set on the pool",
    "requeue": "a run that is cut waits again by itself",
    "no-requeue": "a run that is cut waits again by itself",
    "signal": "a run that is stopped is warned, and has its checkpoint grace",
    "ntasks-per-node": "one command is started; it starts its own processes",
    "reservation": "reservations are made automatically",
}
"""What is not carried over -> why, or what to use instead."""


@dataclass(slots=True, kw_only=True)
class Script:
    """What a script asks for; ``said`` are the remarks about it, in order."""

    interpreter: tuple[str, ...]
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
    said: list[str] = field(default_factory=list)

    def gpus_total(self) -> int | None:
        """Return how many GPUs it asks for in all; None where it does not say."""
        if self.gpus is not None:
            return self.gpus
        if self.gpus_per_node is not None:
            return self.gpus_per_node * (self.nodes or 1)
        if self.gpus_per_task is not None:
            return self.gpus_per_task * (self.tasks or 1)
        return None


def read_script(text: str, name: str, given: Mapping[str, str] | None = None) -> Script:
    """Return what the script ``text`` asks for; raises ``CommandError`` with what is refused.

    ``given`` are its options that typed ones replace: those are ignored.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#!"):
        raise CommandError(
            Exit.INVALID,
            f"{name}:1: must begin with #! and an interpreter, such as #!/bin/bash",
        )
    script = Script(interpreter=tuple(shlex.split(lines[0].removeprefix("#!"))) or ("sh",))
    faults: list[str] = []
    for number, key, value in _directives(lines, name):
        where = f"{name}:{number}: --{key}"
        if key in _REFUSED:
            faults.append(f"{where}: is not possible here; {_REFUSED[key]}")
            continue
        if given and key in given:
            script.said.append(f"{where}: left out: {given[key]} is given")
            continue
        try:
            _take(script, key, value, where)
        except ValueError as error:
            faults.append(f"{where}: {error}")
    if faults:
        raise CommandError(Exit.INVALID, *faults)
    _warn_of_slurm(script, lines, name)
    return script


def _take(script: Script, key: str, value: str, where: str) -> None:
    reader = _READ.get(key)
    if reader is None:
        why = _LEFT_OUT.get(key, "it is not known here")
        script.said.append(f"{where}: left out: {why}")
        return
    note = reader(script, value)
    if note:
        script.said.append(f"{where}: {note}")


def _directives(lines: list[str], name: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, option and value of each option before the first command, as Slurm does."""
    for number, line in enumerate(lines, start=1):
        if line.startswith(_MARK):
            try:
                words = shlex.split(line.removeprefix(_MARK), comments=True)
            except ValueError as error:
                raise CommandError(
                    Exit.INVALID, f"{name}:{number}: {error}; close the quotation"
                ) from None
            yield from ((number, key, value) for key, value in _options(words, f"{name}:{number}"))
        elif line.strip() and not line.lstrip().startswith("#"):
            return


def _options(words: list[str], where: str) -> Iterator[tuple[str, str]]:
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        if word.startswith("--"):
            key, equals, value = word.removeprefix("--").partition("=")
        elif word.startswith("-") and word[1:2] in _SHORT:
            key, value = _SHORT[word[1]], word[2:].removeprefix("=")
            equals = value
        else:
            raise CommandError(
                Exit.INVALID, f"{where}: {word!r} is not an option; write --OPTION=VALUE"
            )
        if not equals and key not in _FLAGS and waiting and not waiting[-1].startswith("-"):
            value = waiting.pop()
        yield key.replace("_", "-"), value


def _warn_of_slurm(script: Script, lines: list[str], name: str) -> None:
    """Say which lines count on what only Slurm gives a script."""
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("#"):
            continue
        if re.search(r"\$\{?SLURM_", line):
            script.said.append(f"{name}:{number}: SLURM_ variables are not set here")
        if re.search(r"(^|[\s;&|(])srun\s", line):
            script.said.append(
                f"{name}:{number}: srun: there may be none where it runs; start processes yourself"
            )


def _whole(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"must be a whole number from 1 on, got {value!r}")
    return int(value)


def _count(script: Script, value: str) -> int:
    """Return N of ``[TYPE:]N``, and keep the type."""
    kind, colon, count = value.rpartition(":")
    if colon:
        if script.flavor is not None and script.flavor.lower() != kind.lower():
            raise ValueError(f"asks for {kind}, and a line before it for {script.flavor}")
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
    for each in value.split(","):
        kind, _, rest = each.partition(":")
        if kind not in ("gpu", "gres/gpu"):
            return f"{each}: left out: only GPUs are counted"
        # What is in parentheses names sockets, and is Slurm's own.
        script.gpus_per_node = _count(script, re.sub(r"\(.*\)$", "", rest) or "1")
    return ""


def _read_nodes(script: Script, value: str) -> str:
    low, dash, _ = value.partition("-")
    script.nodes = _whole(low)
    return f"taken as {low}: a run has one width" if dash else ""


def _read_tasks(script: Script, value: str) -> str:
    script.tasks = _whole(value)
    return "counts GPUs per task only: one command is started; it starts its own processes"


def _read_time(script: Script, value: str) -> str:
    script.duration = duration_of(value)
    return f"expected to take {script.duration}; it is not stopped for taking longer"


def duration_of(value: str) -> str:
    """Return a Slurm time as a duration: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
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
        raise ValueError("0 means no limit to Slurm; leave the line out, or say how long it takes")
    for unit, length in (("h", 3_600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


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
    how = "only afterok:RUN[:RUN...] is possible: a run starts when those have completed"
    after: list[str] = []
    for each in value.split(","):
        kind, _, runs = each.partition(":")
        if kind != "afterok" or not runs or "?" in each or "+" in runs:
            raise ValueError(f"{each!r}: {how}")
        after += runs.split(":")
    script.after = tuple(dict.fromkeys(after))
    return ""


def _read_export(script: Script, value: str) -> str:
    copied: list[str] = []
    for each in value.split(","):
        name, equals, text = each.partition("=")
        if equals:
            script.env[name] = text
        elif name == "ALL":
            script.copied = tuple(copied)
            return "ALL: left out: your environment is not copied; name the variables"
        elif name not in ("NONE", "NIL"):
            copied.append(name)
    script.copied = tuple(copied)
    return ""


_READ: Final[dict[str, Callable[[Script, str], str]]] = {
    "job-name": _read_name,
    "gpus": _read_gpus,
    "gpus-per-node": _read_gpus_per_node,
    "gpus-per-task": _read_gpus_per_task,
    "gres": _read_gres,
    "nodes": _read_nodes,
    "ntasks": _read_tasks,
    "time": _read_time,
    "account": _read_account,
    "partition": _read_partition,
    "chdir": _read_folder,
    "workdir": _read_folder,
    "dependency": _read_dependency,
    "export": _read_export,
}
"""Option -> what takes it over; it returns what is to be said about that, if anything."""
