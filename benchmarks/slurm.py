"""Installs, starts and ends a real Slurm on loopback, with files as GPUs.

munged, slurmctld and slurmd come from the distribution's packages, and have their defaults except
for addresses and folders. One job has all the GPUs, so every measured job is accepted and waits,
and Slurm starts no processes on the measured machine.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final

PACKAGES: Final = ("slurmctld", "slurmd", "slurm-client", "munge", "libslurm-dev")
PROGRAMS: Final = ("slurmctld", "slurmd", "sbatch", "scancel", "sinfo", "squeue", "munged")
GPUS: Final = 8
WAIT_S_MAX: Final = 60.0
"""The time limit of starting, and of each step of ending."""
INSTALL_S_MAX: Final = 600.0
_CLIENT: Final = Path(__file__).parent / "slurm_client.c"
_JOB: Final = ("--output=/dev/null", "--chdir=/tmp", "--wrap=sleep 3600")


class NoSlurmError(Exception):
    """Slurm is not available or does not start here; the text says why."""


@dataclass(frozen=True, slots=True)
class Slurm:
    """A running Slurm. ``client`` is the path of a compiled client, empty without a compiler."""

    version: str
    environment: dict[str, str]
    client: str

    def sbatch(self) -> list[str]:
        """Return the command that submits one job."""
        return ["sbatch", "--quiet", "--parsable", "--gres=gpu:h100:1", *_JOB]

    def submit_all(self, jobs: int) -> float:
        """Return the seconds in which one long-running client submits ``jobs`` jobs."""
        told = _run([self.client, str(jobs)], self.environment)
        return float(told)

    def waiting(self) -> int:
        """Return how many jobs wait."""
        return len(_run(["squeue", "-h", "-t", "PD", "-o", "%i"], self.environment).split())


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """Yield a Slurm that keeps its state under ``folder``, and end it; raises ``NoSlurmError``."""
    _install()
    with ExitStack() as stack:
        # The path of a socket may have at most 107 characters, and ``folder`` may be longer.
        short = Path(stack.enter_context(TemporaryDirectory(prefix="quorate-slurm-")))
        short.chmod(0o755)
        conf = _configure(folder, short)
        environment = {**os.environ, "SLURM_CONF": str(conf)}
        stack.enter_context(_daemon(_munged(short), environment, short / "munged.out"))
        _until((short / "munge").exists, "munged has made no socket", short)
        for name in ("slurmctld", "slurmd"):
            command = [name, "-D", "-f", str(conf), *(["-c"] if name == "slurmctld" else [])]
            stack.enter_context(_daemon(command, environment, short / f"{name}.out"))
        _until(lambda: _states(environment) == ["idle"], "its node is not idle", short)
        stack.enter_context(_all_gpus_taken(environment, short))
        version = _run(["sbatch", "--version"], environment).split()[-1]
        yield Slurm(version, environment, _compiled(short))


def _install() -> None:
    """Check that all packages are installed; install missing packages if possible."""
    if all(shutil.which(name, path=_path()) for name in PROGRAMS):
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise NoSlurmError(f"{', '.join(PACKAGES)} are not installed, and only root can do so")
    print(f"installing {', '.join(PACKAGES)} of the distribution", flush=True)
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=INSTALL_S_MAX
    )
    if done.returncode:
        raise NoSlurmError(f"apt-get could not install it: {_last_line(done.stderr)}")


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _configure(folder: Path, short: Path) -> Path:
    """Write the configuration; return the path of its main file."""
    host = socket.gethostname().partition(".")[0]
    user = pwd.getpwuid(os.geteuid()).pw_name
    controller, node = _free_ports(2)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    for number in range(GPUS):
        (short / f"gpu{number}").touch()
    (short / "key").write_bytes(os.urandom(1_024))
    (short / "key").chmod(0o600)
    (short / "gres.conf").write_text(f"Name=gpu Type=h100 File={short}/gpu[0-{GPUS - 1}]\n")
    conf = short / "slurm.conf"
    settings = {
        "ClusterName": "bench",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": controller,
        "SlurmdPort": node,
        "AuthInfo": f"socket={short}/munge",
        "SlurmUser": user,
        "SlurmdUser": user,
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool",
        "SlurmctldPidFile": short / "slurmctld.pid",
        "SlurmdPidFile": short / "slurmd.pid",
        "SlurmctldLogFile": short / "slurmctld.log",
        "SlurmdLogFile": short / "slurmd.log",
        "ProctrackType": "proctrack/pgid",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        # Accept the number of processors that the node declares.
        "SlurmdParameters": "config_overrides",
        "MpiDefault": "none",
        "ReturnToService": 2,
        # By default, Slurm refuses the 10,001st job.
        "MaxJobCount": 1_000_000,
        "GresTypes": "gpu",
    }
    lines = [f"{name}={value}" for name, value in settings.items()]
    lines += [
        f"NodeName={host} NodeAddr=127.0.0.1 CPUs={8 * GPUS} Gres=gpu:h100:{GPUS} State=UNKNOWN",
        f"PartitionName=bench Nodes={host} Default=YES MaxTime=INFINITE State=UP",
    ]
    conf.write_text("\n".join(lines) + "\n")
    return conf


def _munged(short: Path) -> list[str]:
    files = {"key-file": "key", "socket": "munge", "pid-file": "munge.pid", "log-file": "munge.log"}
    named = [f"--{option}={short / name}" for option, name in files.items()]
    return ["munged", "--foreground", "--force", f"--seed-file={short / 'seed'}", *named]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


@contextmanager
def _daemon(command: Sequence[str], environment: dict[str, str], out: Path) -> Iterator[None]:
    """Run a program during the block; its output is kept for the message of a failure."""
    program = shutil.which(command[0], path=_path())
    if program is None:
        raise NoSlurmError(f"there is no {command[0]}")
    with out.open("w") as file:
        started = subprocess.Popen(
            [program, *command[1:]], env=environment, stdout=file, stderr=file
        )
        try:
            yield
        finally:
            started.terminate()
            try:
                started.wait(WAIT_S_MAX)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


@contextmanager
def _all_gpus_taken(environment: dict[str, str], short: Path) -> Iterator[None]:
    """Let one job hold all GPUs during the block, and wait for its end before the daemons end."""
    command = ["sbatch", "--parsable", f"--gres=gpu:h100:{GPUS}", *_JOB]
    job = _run(command, environment).strip()
    _until(lambda: bool(_running(environment)), "the first job does not start", short)
    try:
        yield
    finally:
        # Stop the partition first, because otherwise a waiting job would start in its place.
        _run(["scontrol", "update", "PartitionName=bench", "State=DOWN"], environment)
        _run(["scancel", job], environment)
        _until(lambda: not _running(environment), "the first job does not end", short)


def _running(environment: dict[str, str]) -> list[str]:
    return _run(["squeue", "-h", "-t", "R,CG", "-o", "%i"], environment).split()


def _states(environment: dict[str, str]) -> list[str]:
    try:
        return _run(["sinfo", "-h", "-N", "-o", "%T"], environment).split()
    except NoSlurmError:
        return []  # The server does not listen yet.


def _compiled(short: Path) -> str:
    """Return the path of the long-running client; empty if it cannot be compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        return ""
    made = short / "slurm_client"
    command = [compiler, "-O2", "-o", str(made), str(_CLIENT), "-lslurm"]
    done = subprocess.run(command, check=False, capture_output=True)
    return str(made) if done.returncode == 0 else ""


def _run(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=INSTALL_S_MAX
    )
    if done.returncode:
        raise NoSlurmError(f"{command[0]}: {_last_line(done.stderr)}")
    return done.stdout


def _until(done: Callable[[], bool], trouble: str, short: Path) -> None:
    end_s = monotonic() + WAIT_S_MAX
    while not done():
        if monotonic() > end_s:
            logs = [*short.glob("*.out"), *short.glob("*.log")]
            told = "; ".join(f"{log.name}: {_last_line(log.read_text())}" for log in logs)
            raise NoSlurmError(f"{trouble}; {told}")
        sleep(0.1)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "it printed nothing"
