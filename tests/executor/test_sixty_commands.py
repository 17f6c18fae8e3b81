"""Sixty commands of new users, with the result that each must have.

They are run one after another with one service, which begins with an empty ledger: by an operator,
a user of Slurm, a user of Kueue, an auditor, and a developer.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from quorate import Client
from quorate.adapters.executors.keepers import work_folder
from quorate.cli.main import main
from quorate.cli.settings import Settings
from tests.bounds import until
from tests.executor.room import sweep
from tests.executor.test_slurm_scripts import FLEET
from tests.service.program import program
from tests.tidy.tree import ROOT

SECOND = """\
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: spare, labels: {region: home, cluster: desk, fabric.domain: B}}
spec: {flavor: A100, gpus: 4}
"""
JOB = """\
#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH --account=vision
#SBATCH --gres=gpu:h100:1
#SBATCH --time=10:00
#SBATCH --qos=high
srun echo "step of $SLURM_JOB_NAME"
"""
BARE = "#!/bin/bash\n#SBATCH --account=vision\necho no GPUs\n"
RUN = """\
apiVersion: quorate.dev/v1
kind: Run
metadata: {name: wide}
spec: {owner: vision, resources: {gpuType: H100, totalGPUs: 64}, command: [sleep, "600"]}
"""


class Typed(NamedTuple):
    """A user, a command, and its expected exit code and output pattern."""

    who: str
    words: str
    code: int
    pattern: str


OPERATOR = [
    ("whoami", 0, r"Role: +admin"),
    ("get nodes", 0, r"^there are no nodes$"),
    ("apply -f fleet.yaml -f second.yaml", 0, r"node/box created(.|\n)*budget/vision created"),
    ("diff -f fleet.yaml", 0, r"\A\Z"),
    ("get nodes -o wide", 0, r"box +Ready +H100 +8"),
    ("get nodes -l region=home --sort-by .spec.gpus -o name", 0, r"node/spare\nnode/box"),
    ("top", 0, r"FLAVOR(.|\n)*H100 +\[\.+\]"),
    ("admin tenant create physics --max-nodes 4", 0, r"owner/physics created\n +maxNodes: 4"),
    ("admin tenant get physics", 0, r"Nodes: +0 of 4"),
    (
        "token issue --role user --tenant vision --user ada -o json",
        0,
        r'"secret": "(?P<ada>qt_\w+)"',
    ),
    ("token issue --role auditor --user otto -o json", 0, r'"secret": "(?P<otto>qt_\w+)"'),
    ("token list", 0, r"user +vision +ada +active"),
    ("node cordon spare --note fans", 0, r"node/spare is cordoned: fans; no work was on it"),
    ("node uncordon spare", 0, r"node/spare is ready"),
    ("node drain spare --dry-run", 0, r"node/spare would be cordoned(.|\n)*nothing was recorded"),
    ("describe node box", 0, r"node-applied/1 +node/box: 8 H100 in home/desk/A"),
    ("delete node spare", 0, r"node/spare removed"),
    ("get nodez", 2, r"there is no kind 'nodez'; did you mean node\?"),
]
SLURM = [
    ("sinfo", 0, r"PARTITION +AVAIL(.|\n)*default"),
    ("sinfo -N", 0, r"box +1 +default +idle +gpu:H100:8"),
    ("sbatch --test-only job.sh", 0, r"would start on 1 H100 GPU(.|\n)*nothing was recorded"),
    ("sbatch bare.sh", 3, r"asks for no GPUs; add #SBATCH --gpus=N"),
    (
        "sbatch --parsable job.sh",
        0,
        r"--qos: left out(.|\n)*^(?P<job>resnet-\w+)$",
    ),
    ("squeue", 0, r"JOBID +PARTITION"),
    ("squeue --me -o '%.18i %.9P %.2t'", 0, r"JOBID"),
    ("WAIT {job}", 0, r"Completed"),
    ("logs {job}", 0, r"step of resnet"),
    ("sacct -j {job} -o JobID%30,State", 0, r"{job} +COMPLETED"),
    (
        "sbatch --array=0-2 --gres=gpu:1 -A vision -J sweep --name sweep --wrap 'sleep 600'",
        0,
        r"run/sweep started: 3 tasks, sweep\[0-2\]",
    ),
    ("squeue -j sweep", 0, r"sweep_1 +default +sweep +ada +R "),
    ("get runs 'sweep[0-1]' -o name", 0, r"run/sweep_0\nrun/sweep_1"),
    ("scancel 'sweep_[2]'", 0, r"run/sweep_2 cancelled"),
    ("scancel --signal=KILL sweep", 0, r"run/sweep_0 cancelled"),
    ("WAIT sweep_0 sweep_1 sweep_2", 0, r"Cancelled Cancelled Cancelled"),
    ("scancel nowhere", 1, r"there is no run 'nowhere'"),
    ("srun hostname", 2, r"'srun'; write: quorate submit --gpus N -- COMMAND"),
    ("scontrol show job {job}", 2, r"write: quorate describe run NAME"),
]
KUEUE = [
    ("import kueue kueue.yaml", 0, r"kind: Budget"),
    ("get queue", 0, r"^no run waits in the queue"),
    ("submit -f wide.yaml", 0, r"run/wide submitted(.|\n)*waits"),
    ("get queue -o wide", 0, r"wide +vision"),
    ("explain wide", 0, r"run/wide is Pending(.|\n)*budgets can pay 8 of 64 GPUs, 56 short"),
    ("plan wide", 0, r"run/wide waits; it has no planned start"),
    ("get run wide -o jsonpath='{{.status.phase}}'", 0, r"^Pending$"),
    ("get runs --field spec.owner=vision --phase Pending", 0, r"wide"),
    ("describe run wide", 0, r"Phase: +Pending"),
    ("delete run wide", 2, r"quorate cancel"),
    ("cancel wide nowhere", 1, r"run/wide cancelled(.|\n)*there is no run 'nowhere'"),
    ("get budgets", 0, r"vision +vision +1 "),
    ("get envelopes -o csv", 0, r"NAME,OWNER"),
]
AUDITOR = [
    ("whoami", 0, r"Role: +auditor"),
    ("ledger verify --deep", 0, r"the ledger verifies(.|\n)*every invariant held"),
    ("ledger log --limit 5", 0, r"run-ended/1 +run/wide Cancelled"),
    ("ledger log --run {job}", 0, r"run/{job}"),
    ("lottery verify", 0, r"every seed, draw and victim matches the ledger"),
    ("statement --price H100=2.40", 0, r"vision/home +vision +H100(.|\n)*COST"),
    ("get charges", 0, r"{job}"),
    ("usage --tenant vision", 0, r"vision +\d+\.\d\d "),
    ("cancel {job} --dry-run", 1, r"cancel-run: not for an auditor"),
    ("ledger export", 0, r'"lease-started/\d"'),
    ("ledger checkpoint", 1, r"not for an auditor; this needs one of the roles: admin"),
]
SUBMIT = "client.submit(gpus=1, team='vision', command=['echo', 'hi'], name='py'"
PYTHON = [
    ("client.whoami().role", 0, r"user"),
    ("client.runs.get('{job}').status.phase", 0, r"Completed"),
    ("[run.name for run in client.runs.list(phase='Cancelled')]", 0, r"sweep_0"),
    ("sum(node.status.free_gpus for node in client.nodes)", 0, r"^8$"),
    (f"{SUBMIT}, dry_run=True).outcome.dry_run", 0, r"True"),
    (f"{SUBMIT}).wait(timeout_s=60).status.phase", 0, r"Completed"),
    ("[line.text for line in client.run('py').logs()]", 0, r"'hi'"),
    ("client.run_reports('py').step", 0, r"None"),
    ("client.runs.get('nowhere')", 1, r"there is no run 'nowhere'"),
]


def table() -> list[Typed]:
    """Return all commands, in order."""
    parts = {
        "operator": OPERATOR,
        "slurm": SLURM,
        "kueue": KUEUE,
        "auditor": AUDITOR,
        "python": PYTHON,
    }
    return [Typed(who, *each) for who, part in parts.items() for each in part]


@dataclass
class Desk:
    """A service, and the folder of its users; ``known`` has names from earlier output."""

    folder: Path
    url: str
    admin: str
    known: dict[str, str] = field(default_factory=dict)

    def token(self, who: str) -> str:
        if who == "operator":
            return self.admin
        return self.known["otto" if who == "auditor" else "ada"]

    def type(self, typed: Typed) -> str:
        """Return what is wrong with the result of a command; empty if it is right."""
        words = typed.words.format(**self.known)
        code, out = self._result(typed.who, words)
        pattern = typed.pattern
        for name, value in self.known.items():
            pattern = pattern.replace(f"{{{name}}}", re.escape(value))
        found = re.search(pattern, out, re.MULTILINE)
        if code != typed.code or found is None:
            return (
                f"{typed.who}: {words}\nexit code {code}, not {typed.code}; {pattern!r} in:\n{out}"
            )
        self.known |= found.groupdict()
        return ""

    def _result(self, who: str, words: str) -> tuple[int, str]:
        if who == "python":
            return self._evaluated(words)
        if words.startswith("WAIT "):
            return 0, " ".join(map(self._ended, words.split()[1:]))
        environ = {
            "QUORATE_SERVER": self.url,
            "QUORATE_TOKEN": self.token(who),
            "HOME": str(self.folder),
        }
        out = io.StringIO()
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(out):
            code = main(shlex.split(words), Settings(environ=environ))
        return int(code), out.getvalue()

    def _evaluated(self, expression: str) -> tuple[int, str]:
        with Client(self.url, token=self.token("python")) as client:
            try:
                return 0, str(eval(expression, {"client": client}))  # noqa: S307 - our own text
            except Exception as error:  # noqa: BLE001 - what a person would see
                return 1, f"{type(error).__name__}: {error}"

    def _ended(self, run: str) -> str:
        with Client(self.url, token=self.admin) as client:
            until(lambda: client.run(run).phase() not in ("Pending", "Running"), f"{run} ends")
            return client.run(run).phase()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Return a new service that runs work, and the files of its users."""
    files = {
        "fleet.yaml": FLEET,
        "second.yaml": SECOND,
        "job.sh": JOB,
        "bare.sh": BARE,
        "wide.yaml": RUN,
        "kueue.yaml": (ROOT / "examples" / "kueue" / "kueue.yaml").read_text(),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    words = ("--init", "--ledger", "l.db", "--executor", "local", "--executor-allow-root")
    try:
        with program(tmp_path, *words) as served:
            yield Desk(tmp_path, served.wait_ready(), served.token)
    finally:
        sweep(work_folder(tmp_path / "l.db"))


@pytest.mark.soak
def test_sixty_commands_come_to_what_people_expect(desk: Desk) -> None:
    typed = table()
    assert len(typed) >= 60
    wrong = [said for said in map(desk.type, typed) if said]
    assert not wrong, "\n\n".join([f"{len(wrong)} of {len(typed)}:", *wrong])
