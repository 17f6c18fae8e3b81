"""The command line with a real service prints the same text as on the service's file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.cli.main import main
from quorate.cli.settings import Settings
from quorate.model.amounts import MINUTE_MS
from quorate.testing.memory_engines import HandClock
from tests.cli.shell import EXAMPLES, Said, Shell, finish, process, start
from tests.client.running import Running, running

pytestmark = pytest.mark.slow  # A service is started, and some commands run as processes.


@dataclass(frozen=True, slots=True)
class Place:
    """A service, the folder of its file, and the clock, which service and commands share."""

    running: Running
    folder: Path
    clock: HandClock

    @property
    def env(self) -> dict[str, str]:
        """The environment with which commands use the service."""
        return {"QUORATE_SERVER": self.running.url, "QUORATE_TOKEN": self.running.token}

    def say(self, capsys: pytest.CaptureFixture[str], words: Sequence[str], **env: str) -> Said:
        """Return the exit code and output of a command in the folder."""
        capsys.readouterr()
        with chdir(self.folder):
            environ = {"QUORATE_ACTOR": "admin", **env}
            code = main(words, Settings(environ=environ, clock=self.clock))
        out, err = capsys.readouterr()
        return Said(int(code), out, err)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(EXAMPLES, folder / "examples")
    clock = HandClock()
    with running(folder / "quorate.db", clock=clock) as found:
        made = Place(found, folder, clock)
        for words in (
            ("apply", "-f", "examples/fleet.yaml", "-f", "examples/teams.yaml"),
            ("submit", "-f", "examples/train.yaml"),
            ("submit", "--like", "train", "--name", "next", "--set", "spec.resources.totalGPUs=32"),
            ("admin", "tenant", "update", "rai", "--max-nodes", "50"),
        ):
            said = process(folder, *words, env=made.env)
            assert said.code == 0, said
            clock.ms += 7 * MINUTE_MS
        yield made


READS = [
    "get runs",
    "get runs -o wide",
    "get run train -o json",
    "get nodes -o yaml",
    "get nodes -o csv",
    "get runs -o name",
    "get runs -o jsonpath={.items[*].metadata.name}",
    "cancel tarin --dry-run",
    "cancel --all --all-users",
    "cancel --all --all-users --dry-run",
    "delete node nope --dry-run",
    "delete node a1 --dry-run",
    "get budgets -o json",
    "get resolveroutcomes",
    "get resolveroutcomes -o json",
    "apply -f examples/teams.yaml --dry-run -o json",
    "get run nope",
    "get run train nope",
    "queue",
    "top -o wide",
    "describe run train",
    "describe run train next",
    "describe owner rai",
    "explain next",
    "explain next -o json",
    "plan next",
    "plan nope",
    "plan -f examples/borrow.yaml --dry-run",
    "usage --tenant rai -o csv",
    "usage --tenant rai -o json",
    "usage --tenant nope",
    "statement",
    "statement -o csv",
    "notices",
    "notices -o wide --limit 1",
    "notices --kind run-started --from 1 -o json",
    "notices --kind nope",
    "notices --owner nope",
    "ledger log --limit 5",
    "ledger log --run train -o json",
    "ledger export",
    "lottery show",
    "lottery verify",
    "admin tenant list -o wide",
    "admin tenant get rai",
    "watch next --once",
    "watch --pool default --once",
    "watch nope --once",
    "logs train",
    "cancel next --dry-run",
    "cancel nope --dry-run",
    "complete train --dry-run -o json",
    "submit -f examples/share.yaml --dry-run",
    "submit --gpus 4 --team rai --flavor A100 --name line --dry-run -- python train.py",
    "apply -f examples/teams.yaml --dry-run",
    "patch budget rai --set spec.envelopes[west].concurrency=90 --dry-run",
    "patch budget rai --set spec.envelopes[west].concurrency=many --dry-run",
    "admin tenant create physics --max-nodes 3 --dry-run",
    "admin tenant delete rai --dry-run",
    "node drain a1 --dry-run",
]


@pytest.mark.parametrize("line", READS)
def test_a_service_says_what_its_file_says(
    place: Place, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = line.split()
    file, service = place.say(capsys, words), place.say(capsys, words, **place.env)
    assert _without_place(service) == _without_place(file)
    assert file.out or file.err
    if "searched: " in file.err:
        assert file.err.endswith("searched: the ledger quorate.db\n")
        assert service.err.endswith(f"searched: {place.running.url} (by QUORATE_SERVER)\n")


def _without_place(said: Said) -> Said:
    lines = said.err.splitlines(keepends=True)
    return Said(said.code, said.out, "".join(x for x in lines if not x.startswith("searched: ")))


BAD_BUDGET = """\
kind: Budget
apiVersion: quorate.dev/v1
metadata: {name: new}
spec:
  owner: rai
  envelopes:
  - name: e
    flavor: H100
    selector: {region: "*"}
    start: 2026-01-01T00:00:00Z
    end: 2028-01-01T00:00:00Z
    concurrency: 8
"""
RUN = """\
apiVersion: quorate.dev/v1
kind: Run
metadata: {name: new}
spec:
  owner: rai
  resources: {gpuType: H100, totalGPUs: 1}
  follow:
    after: [train]
"""
POOL = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: p}
spec:
  discipline: rounds
  policy: nope
"""
FAULTS = {
    "a value": (
        "apply",
        BAD_BUDGET.replace("concurrency: 8", "concurrency: -8"),
        "bad.yaml:12: Budget/new: spec.envelopes[0].concurrency: must be positive, got -8",
    ),
    "a reference": (
        "apply",
        BAD_BUDGET.replace("owner: rai", "owner: nope"),
        "bad.yaml:5: Budget/new: spec.owner: there is no owner 'nope'",
    ),
    "the second document": (
        "apply",
        f"{BAD_BUDGET}---\n{RUN.replace('[train]', '[train, nope]')}",
        "bad.yaml:21: Run/new: spec.follow.after: there is no run 'nope'",
    ),
    "a policy": (
        "apply",
        POOL,
        "bad.yaml:6: Pool/p: spec.policy: there is no policy 'nope'",
    ),
    "whose run it is": (
        "submit",
        RUN.replace("  owner: rai\n", ""),
        "bad.yaml:4: Run/new: spec.owner: is required",
    ),
    "whose unnamed run it is": (
        "plan",
        RUN.replace("  owner: rai\n", "").replace("name: new", "generateName: new-"),
        "bad.yaml:4: Run: spec.owner: is required",
    ),
    "a pool": (
        "submit",
        RUN.replace("  owner: rai", "  owner: rai\n  pool: nope"),
        "bad.yaml:6: Run/new: spec.pool: there is no pool 'nope'",
    ),
}
"""For each fault: the command, the file, and the beginning of the error."""


def asked_for(err: str) -> str:
    """Return an error without the line that names the searched ledger or service."""
    return "".join(
        line for line in err.splitlines(keepends=True) if not line.startswith("searched:")
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_service_s_errors_name_file_and_line_as_those_of_its_file_do(
    place: Place, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, text, told = FAULTS[fault]
    (place.folder / "bad.yaml").write_text(text, encoding="utf-8")
    words = [command, "-f", "bad.yaml", "--dry-run"]
    file, service = place.say(capsys, words), place.say(capsys, words, **place.env)
    assert service.err.startswith(f"error: {told}"), service
    assert asked_for(service.err) == asked_for(file.err)
    assert service.code == file.code


def test_what_was_set_is_not_sought_in_the_file(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.folder / "bad.yaml").write_text(RUN, encoding="utf-8")
    words = ["submit", "-f", "bad.yaml", "--set", "spec.owner=nope"]
    said = place.say(capsys, words, **place.env)
    assert said.err.startswith("error: Run/new: spec.owner: there is no owner 'nope'"), said


def test_a_run_is_watched_until_it_is_over(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--gpus", "4", "--team", "rai", "--flavor", "A100", "--name", "mine", "--", "true"]
    said = place.say(capsys, ["submit", *words], **place.env)
    assert said.code == 0, said
    assert "run/mine started on 4 A100 GPUs" in said.out
    assert "receipt " in said.out
    watching = start(place.folder, "watch", "mine", env=place.env)
    assert watching.stdout is not None
    assert watching.stdout.readline()
    assert place.say(capsys, ["cancel", "mine"], **place.env).code == 0
    seen = finish(watching)
    assert seen.code == 0, seen
    assert "mine" in seen.out.splitlines()[-1]
    again = place.say(capsys, ["cancel", "mine"], **place.env)
    assert (again.code, again.err) == (0, ""), again
    assert again.out.splitlines() == [
        "run/mine unchanged (it is Cancelled; choose another name to run it again)",
        "nothing to record",
    ]
    other = place.say(capsys, ["complete", "mine"], **place.env)
    assert other.code == 1
    assert "run 'mine' is already Cancelled" in other.err


def test_a_token_s_rights_are_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    env = token_of_a_user(place, capsys)
    refused = place.say(capsys, ["admin", "tenant", "create", "physics"], **env)
    assert refused.code == 1
    assert "create-tenant: not for a user" in refused.err
    wrong = place.say(
        capsys, ["get", "runs"], **(env | {"QUORATE_TOKEN": f"{env['QUORATE_TOKEN']}x"})
    )
    assert wrong.code == 1
    assert "give your token in QUORATE_TOKEN" in wrong.err


def token_of_a_user(place: Place, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the environment with which commands use the service as Ann of rai."""
    words = ["token", "issue", "--role", "user", "--user", "ann", "--tenant", "rai"]
    issued = place.say(capsys, words, **place.env)
    assert issued.code == 0, issued
    secret = next(word for word in issued.out.split() if word.startswith("qt_"))
    return place.env | {"QUORATE_TOKEN": secret}


NOBODYS = """
apiVersion: quorate.dev/v1
kind: Run
metadata: {name: nobodys}
spec:
  resources: {gpuType: A100, totalGPUs: 1}
"""


def test_a_run_in_a_file_belongs_to_the_tenant_of_whoever_asks_a_service(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.folder / "nobodys.yaml").write_text(NOBODYS)
    ann = token_of_a_user(place, capsys)
    for words in (
        ["submit", "-f", "nobodys.yaml", "--dry-run"],
        ["submit", "-f", "nobodys.yaml", "--set", "spec.resources.totalGPUs=2", "--dry-run"],
        ["apply", "-f", "nobodys.yaml", "--dry-run"],
        ["plan", "-f", "nobodys.yaml", "--dry-run"],
        ["submit", "-f", "nobodys.yaml"],
    ):
        said = place.say(capsys, words, **ann)
        assert (said.code, said.err) == (0, ""), said
    told = place.say(capsys, ["get", "run", "nobodys", "-o", "json"], **ann)
    assert told.json["spec"]["owner"] == "rai"


def test_a_run_of_nobody_is_refused_by_a_service_that_knows_no_tenant_and_by_a_file(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.folder / "nobodys.yaml").write_text(NOBODYS)
    words = ["submit", "-f", "nobodys.yaml", "--dry-run"]
    for env in (place.env, {}):
        said = place.say(capsys, words, **env)
        assert said.code == 3, said
        assert said.err.startswith("error: nobodys.yaml:5: Run/nobodys: spec.owner: is required")
        assert "name the owner" in said.err


def test_words_are_completed_from_the_service_and_from_the_file(place: Place) -> None:
    for env in (place.env, {}):
        found = process(
            place.folder,
            env=env
            | {
                "_QUORATE_COMPLETE": "bash_complete",
                "COMP_WORDS": "quorate cancel ",
                "COMP_CWORD": "2",
            },
        )
        assert {line.partition(",")[2] for line in found.out.split()} >= {"train", "next"}


def test_nothing_is_said_where_nothing_can_be_completed(bare: Shell) -> None:
    found = process(
        bare.folder,
        env={
            "_QUORATE_COMPLETE": "fish_complete",
            "COMP_WORDS": "quorate --server http://127.0.0.1:1 cancel",
            "COMP_CWORD": "",
        },
    )
    assert (found.out.strip(), found.err) == ("", "")


def test_a_diff_that_is_refused_is_not_one_that_found_a_difference(place: Place) -> None:
    changed = (
        (place.folder / "examples/fleet.yaml").read_text("utf-8").replace("gpus: 8", "gpus: 4")
    )
    (place.folder / "changed.yaml").write_text(changed, "utf-8")
    barred = {**place.env, "QUORATE_TOKEN": f"{place.env['QUORATE_TOKEN'][:-1]}_"}
    assert process(place.folder, "get", "nodes", env=barred).code == 1
    for file, env, code in (
        ("examples/fleet.yaml", place.env, 0),
        ("changed.yaml", place.env, 1),
        ("changed.yaml", barred, 4),
    ):
        said = process(place.folder, "diff", "-f", file, env=env)
        assert (said.code, bool(said.out), bool(said.err)) == (code, code == 1, code == 4), said
