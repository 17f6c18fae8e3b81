"""Every example in the output of ``--help`` works when typed as shown."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import click
import pytest

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.main import main, quorate
from quorate.cli.settings import Settings
from quorate.core.commands import IssueToken
from quorate.loop.engine import Engine
from tests.cli.shell import EXAMPLES, MovableClock, Shell, process
from tests.oracles.effort import IS_SOAK

pytestmark = pytest.mark.slow  # Every example is a separate process.

LONG_AGO_MS = 1_735_689_600_000  # 2025-01-01T00:00:00Z
WORLD = {
    "nodes": [
        {"name": "n", "flavor": "F", "gpus": 8, "region": "r", "cluster": "c", "domain": "d"}
    ],
    "pack": {"totalGPUs": 4},
}
RECORDING = {
    "policy": "fifo_perf",
    "cluster_spec": {"F": 1},
    "jobs": [{"id": 0, "type": "lm", "scale_factor": 1, "total_steps": 9, "arrival": 0}],
    "resets": [
        {"t": 0, "allocation": {"0": {"F": 1.0}}},
        {"t": 9, "allocation": None},
    ],
    "throughputs": {"F": {"('lm', 1)": {"null": 1.0}}},
}


PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,600.0,8,4800.0,vc-a
2017-10-09 07:03:00,1200.0,16,19200.0,vc-b
"""
DRAWN = """generate: lam=900,jobs=9
throughputs: rates.json
cluster: h100=8
"""
HOSPITAL = """apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: hospital}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: hospital}
spec:
  owner: hospital
  envelopes:
    - name: own
      flavor: H100
      selector: {region: us-west}
      start: 2020-01-01T00:00:00Z
      end: 2100-01-01T00:00:00Z
      concurrency: 16
"""
SCANS = ("claim", "scans", "--owner", "hospital", "--flavor", "H100", "--nodes", "1", "--for", "8h")


def _examples(command: click.Command) -> Iterator[str]:
    """Yield the examples in the help of ``command`` and its subcommands."""
    title = "Start here:" if command is quorate else "Examples:"
    text = (command.epilog or "").partition(f"{title}\n")[2].partition("\n\n")[0]
    yield from (line.strip() for line in text.splitlines())
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None, name
            yield from _examples(below)


LINES = list(dict.fromkeys(_examples(quorate)))
HERE = [line for line in LINES if "etcd://" not in line]
"""Examples that need no other machines; ``tests/etcd`` runs the others."""
TYPED = HERE if IS_SOAK else [line for line in HERE[::50] if line != "quorate demo"]
"""Examples that are run: in a soak, all of them. ``test_demo.py`` runs the demo."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that examples name, in several states of the ledger.

    ``files`` has no ledger, ``before`` has a ledger with fleet and budgets, and ``after`` also a
    run; ``claimed`` has a claim instead of a run, and ``left`` a released claim.
    """
    folder = tmp_path_factory.mktemp("help")
    files = folder / "files"
    files.mkdir()
    shutil.copyfile(EXAMPLES / "fleet.yaml", files / "fleet.yaml")
    vision = "apiVersion: quorate.dev/v1\nkind: Owner\nmetadata: {name: vision}\n"
    cap = "{name: all, flavor: H100, envelopes: [west], maxConcurrency: 96}"
    teams = (EXAMPLES / "teams.yaml").read_text()
    teams = teams.replace("  owner: rai\n", f"  owner: rai\n  aggregateCaps: [{cap}]\n")
    (files / "budgets.yaml").write_text(f"{teams}---\n{vision}---\n{HOSPITAL}")
    train = (EXAMPLES / "train.yaml").read_text()
    elastic = "  malleable: {minTotalGPUs: 16, maxTotalGPUs: 96, stepGPUs: 8}\n"
    (files / "run.yaml").write_text(train.replace("{name: train}", "{name: train-1}") + elastic)
    (files / "world.json").write_text(json.dumps(WORLD))
    for name in ("problem.json", "jobs.json", "rates.json"):
        shutil.copyfile(EXAMPLES / name, files / name)
    simulation = EXAMPLES / "simulation"
    shutil.copyfile(simulation / "jobs.csv", files / "jobs.csv")
    scenario = (simulation / "scenario.yaml").read_text()
    scenario = scenario.replace("examples/simulation/", "").replace("examples/", "")
    (files / "scenario.yaml").write_text(scenario)
    shutil.copyfile(EXAMPLES / "kueue" / "kueue.yaml", files / "kueue.yaml")
    (files / "drawn.yaml").write_text(DRAWN)
    (files / "philly.csv").write_text(PHILLY)
    (files / "ran.csv").write_text("n,submitted,ran\n2,2026-10-01T08:00:00Z,60\n")
    (files / "job.sh").write_text("#!/bin/bash\n#SBATCH --gpus=h100:8\ntrue\n")
    (files / "lab.token").write_text("qt_of_nobody\n")
    (files / "recording.json").write_text(json.dumps(RECORDING))
    before = shutil.copytree(files, folder / "before")
    for words in (["init"], ["apply", "-f", "fleet.yaml", "-f", "budgets.yaml"]):
        _type(before, *words)
    after = shutil.copytree(before, folder / "after")
    for words in (
        ["submit", "-f", "run.yaml"],
        ["sbatch", "-A", "rai", "-G", "h100:1", "--name", "sweep", "--array=0-19", "--wrap=true"],
        ["ledger", "export", "--out", "ledger.jsonl"],
        ["ledger", "checkpoint", "--out", "checkpoint.json"],
        ["ledger", "backup", "--out", "backup.db", "--with-keys"],
    ):
        _type(after, *words)
    claimed = shutil.copytree(before, folder / "claimed")
    _type(claimed, *SCANS, "--select", "fabric.domain=A")
    left = shutil.copytree(claimed, folder / "left")
    _type(left, "release", "scans")
    return folder


def _type(folder: Path, *words: str) -> None:
    """Run a command that must succeed, in this process."""
    with chdir(folder):
        assert main(words, Settings(environ={"QUORATE_ACTOR": "ada"}, clock=SystemClock())) == 0


def _issue(ledger: Path, name: str) -> None:
    """Issue a token with the id that an example names; otherwise the id would be random."""
    with SqliteStore.open(ledger) as store:
        engine = Engine.open(store, SystemClock())
        command = IssueToken(name, "0" * 64, role="admin", tenant="", user="ada")
        assert not engine.execute(command, actor="ada").decision.refusals


def _arranged(prepared: Path, place: Path, line: str, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return ``place`` in the state that the example ``line`` expects."""
    if "replay" in line or "whatif" in line:
        shutil.copytree(prepared / "files", place)
        long_ago = Shell(place, capsys, MovableClock(LONG_AGO_MS))
        long_ago.ok("init")
        long_ago.ok("apply", "-f", "fleet.yaml", "-f", "budgets.yaml")
        return place
    stages = {" init": "files", "submit -f": "before", "claim ": "before", "release": "claimed"}
    stages["quorate delete "] = "before"
    stages |= {"node wiped": "left", "submit --name train-1": "before"}
    stage = next((found for words, found in stages.items() if words in line), "after")
    shutil.copytree(prepared / stage, place)
    if line.startswith(("quorate context use lab", "quorate context delete")):
        config = place / ".config" / "quorate" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text('[contexts.lab]\nserver = "http://127.0.0.1:8414"\n')
    if "--format ledger" in line:
        assert process(place, "complete", "train-1").code == 0
    if "token revoke" in line:
        _issue(place / "quorate.db", line.split()[3])
    # The file that an example creates must not exist yet.
    for option in (" --out ", " --to "):
        for name in line.partition(option)[2].split()[:1]:
            (place / name).unlink(missing_ok=True)
    return place


@pytest.mark.parametrize("line", TYPED)
def test_an_example_works_as_it_stands(
    prepared: Path, tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = _arranged(prepared, tmp_path / "place", line, capsys)
    commands = Path(sys.executable).parent
    assert (commands / "quorate").is_file(), "install the project first: make test does"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", line],
        cwd=place,
        env={
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(place),
            "LC_ALL": "C.UTF-8",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done


@pytest.mark.parametrize("group", [(), ("node",), ("ledger",), ("admin",), ("context",)])
def test_a_group_without_a_command_prints_its_help_on_many_lines(
    bare: Shell, group: tuple[str, ...]
) -> None:
    said = bare(*group)
    asked = bare(*group, "--help")
    assert (said.code, said.out, said.err) == (2, "", asked.out)
    assert said.err.startswith("Usage: quorate ")
    assert said.err.count("\n") > 10


def test_every_command_has_examples() -> None:
    assert len(LINES) > 40
    assert all("quorate " in line for line in LINES)


def test_the_help_of_all_commands_is_printed_at_once(shell: Shell) -> None:
    told = shell.ok("--help-all")
    for words in ("submit", "get", "admin tenant create", "ledger verify", "node drain"):
        assert f"Usage: quorate {words} " in told, words
    assert told.count("Usage: quorate") > 70
