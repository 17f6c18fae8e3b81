"""Shows three services on one ledger in etcd, and a failover after the leader is killed.

    python -m tools.demo_quorum

The command starts three members of etcd and three services on loopback, submits runs, kills the
leader with SIGKILL, and prints how long no submission was accepted. Then it waits for every run,
checks that no run was interrupted, starts the killed service again, and verifies the ledger against
a checkpoint from before the kill. At the end, it ends all programs. The exit code is 0 if nothing
was lost.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from quorate.client.client import Client
from quorate.client.errors import QuorateClientError
from quorate.client.retrying import Retrying
from tests.bounds import Deadline, until
from tests.etcd.daemons import Cluster, Daemon, cluster
from tests.etcd.etcd_trio import three_members
from tests.etcd_server import find_etcd
from tests.service.program import CLI
from tests.tidy.tree import ROOT

LOST: Final = 1
"""The exit code if the ledger lacks an acknowledged run, or a run was interrupted."""
AIMED_S: Final = 5.0
"""The target of the time until submissions are accepted again."""
EXAMPLES: Final = ROOT / "examples"
STEPS: Final = 15
WORK: Final = (
    "sh",
    "-c",
    f"i=0; while [ $i -lt {STEPS} ]; do sleep 1; i=$((i+1)); echo step $i; done",
)
AT_WORK: Final = ("alpha", "beta", "gamma")


def main() -> int:
    """Return the exit code: 0 after the whole demo, if nothing was lost."""
    began_s = time.monotonic()
    with TemporaryDirectory(prefix="quorate-demo-") as made, ExitStack() as stack:
        code = _show(stack, Path(made))
    took_s = time.monotonic() - began_s
    print(f"\nEvery process has ended, and the files are removed. It took {took_s:.0f} s.")
    return code


def _show(stack: ExitStack, folder: Path) -> int:
    _say("starting three members of etcd, which keep one ledger, and three services on it")
    print("  this takes 10 to 30 s", flush=True)
    program = find_etcd(folder / "programs")
    endpoints = stack.enter_context(three_members(program, folder))
    words = ["--executor", "local", "--work-folder", str(folder / "work")]
    if os.geteuid() == 0:
        words.append("--executor-allow-root")
    found = stack.enter_context(cluster(endpoints, "fleet", folder, *words))
    leader, _ = found.by_role()
    _show_roles(found)
    print("  the leader records every command; followers answer reads, and forward commands to it")
    client = stack.enter_context(_client(found))

    _say("a fleet, three teams with budgets, and three runs of the team rai")
    _apply(found)
    submitted = [_submit(client, name, WORK) for name in AT_WORK]
    until(lambda: _phases(client, AT_WORK) == {"Running"}, "the runs are at work")
    _type(found, "get", "runs")
    checkpoint = folder / "before.json"
    _type(found, "ledger", "checkpoint", "--out", str(checkpoint))

    _say(f"kill -9 of {leader.name}, the leader; a client submits until it is accepted")
    leader.kill()
    killed_s = time.monotonic()
    submitted.append(_submit_at_once(client, "after-the-kill"))
    took_s = time.monotonic() - killed_s
    print(f"  accepted {took_s:.2f} s after the kill; the target is {AIMED_S:g} s at most")
    found.by_role()
    _show_roles(found)

    _say("the runs that were at work go on under the new leader, and end")
    until(lambda: _phases(client, submitted) == {"Completed"}, "all runs have completed")
    _type(found, "get", "runs")
    interrupted = [name for name in AT_WORK if not _is_whole(found, name)]
    if not interrupted:
        print(f"  {', '.join(AT_WORK)}: each was started once, and did steps 1 to {STEPS} once")

    _say(f"{leader.name} is started again, and follows")
    leader.begin()
    leader.wait_ready()
    found.by_role()
    _show_roles(found)

    _say("is anything lost? The ledger is compared with the checkpoint from before the kill")
    _type(found, "ledger", "verify", "--against", str(checkpoint))
    listed = {each.name for each in client.runs.list()}
    missing = sorted(set(submitted) - listed)
    print(
        f"\n{len(submitted)} runs were acknowledged: {len(missing)} of them are missing, and "
        f"{len(interrupted)} were interrupted"
    )
    return LOST if missing or interrupted else 0


def _client(found: Cluster) -> Client:
    servers = ",".join(each.address for each in found.daemons)
    # The client's pauses are short, so that the printed time is the time of the services.
    quick = Retrying(tries=1)
    return Client(servers, token=found.token, retrying=quick)


def _submit(client: Client, name: str, command: Sequence[str]) -> str:
    run = client.submit(
        gpus=1, team="rai", flavor="H100", name=name, command=list(command), idempotency_key=name
    )
    print(f"  submitted {run.name}")
    return run.name


def _submit_at_once(client: Client, name: str) -> str:
    """Submit a run with one key again and again until it is accepted; return its name."""
    deadline = Deadline("a submit is accepted")
    while True:
        try:
            return _submit(client, name, ("true",))
        except QuorateClientError as error:
            deadline.check(partial(str, error))
            time.sleep(0.05)


def _is_whole(found: Cluster, name: str) -> bool:
    """Return whether a run was started once and has printed each of its steps once."""
    start, *steps = _typed(found, "logs", name).splitlines()
    is_whole = start.startswith("quorate: start 1:") and steps == [
        f"step {number}" for number in range(1, STEPS + 1)
    ]
    if not is_whole:
        print(f"  {name} was interrupted; it has printed: {start}, {', '.join(steps)}")
    return is_whole


def _phases(client: Client, names: Sequence[str]) -> set[str]:
    try:
        return {client.get_run(name).status.phase for name in names}
    except QuorateClientError:
        return set()


def _show_roles(found: Cluster) -> None:
    for daemon in found.daemons:
        print(f"  {_role(daemon)}")


def _role(daemon: Daemon) -> str:
    if daemon.program is None:
        return f"{daemon.name:<10} killed"
    said = daemon.standing()
    return (
        f"{daemon.name:<10} {said['role']:<9} term {said['term']}, sequence {said['sequence']}, "
        f"{said['lagMs']} ms behind at most"
    )


def _apply(found: Cluster) -> None:
    """Apply the examples, and print the number of resources of each kind."""
    words = ("apply", "-f", str(EXAMPLES / "fleet.yaml"), "-f", str(EXAMPLES / "teams.yaml"))
    _show_command(words)
    lines = _typed(found, *words).splitlines()
    kinds = Counter(line.partition("/")[0] for line in lines if line.endswith(" created"))
    print(f"  created: {', '.join(f'{number} {kind}s' for kind, number in kinds.items())}")


def _type(found: Cluster, *words: str) -> None:
    """Show a command, with all services as contexts, and its output."""
    _show_command(words)
    print(_typed(found, *words), end="", flush=True)


def _show_command(words: Sequence[str]) -> None:
    typed = " ".join(Path(word).name if "/" in word else word for word in words)
    print(f"\n$ quorate {typed}", flush=True)


def _typed(found: Cluster, *words: str) -> str:
    """Return the output of a command; if it fails, show its errors and end this program."""
    servers = ",".join(each.address for each in found.daemons)
    done = subprocess.run(  # noqa: S603 - this project's own command
        [sys.executable, "-c", CLI, *words],
        env={**os.environ, "QUORATE_SERVER": servers, "QUORATE_TOKEN": found.token},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"quorate {words[0]} has ended with {done.returncode}\n{done.stderr}")
    return done.stdout


def _say(text: str) -> None:
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
