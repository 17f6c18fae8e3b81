"""The command line, REST, gRPC and the Python client can do the same things.

Each command is run with a real service, which counts the called operations.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorate import AsyncClient, Client
from quorate.cli.main import main, quorate
from quorate.cli.settings import Settings
from quorate.operations.operation import Operation
from quorate.operations.table import OPERATIONS
from quorate.service.grpc.grpc_protocol import description
from quorate.service.grpc.grpc_schema import schema
from tests.bounds import until
from tests.cli.shell import EXAMPLES
from tests.service.questions import TENANT, USER, Furnished
from tests.service.serving import Served, new_ledger, serving

LOCAL: Final = {
    "completion": "prints a script for a shell, and knows no ledger",
    "context current": "reads the file that says which services one uses",
    "context delete": "as context current",
    "context list": "as context current",
    "context set": "as context current",
    "context use": "as context current",
    "demo": "plays on a ledger of its own, which it makes for the occasion",
    "import kueue": "turns files into documents, which `apply` sends",
    "init": "makes the file that a service serves",
    "cluster init": "makes the ledger that services share, before there is one",
    "ledger backup": "copies the file that a service serves, on the machine that has it",
    "ledger import": "makes the file that a service serves, from an export",
    "ledger migrate": "moves the ledger that a service serves, which must be stopped for that",
    "ledger restore": "makes the file that a service serves, from a backup",
    "node discover": "looks at the machine it is typed on",
    "serve": "is the service",
    "calc": "works out the world it is given, and needs neither a ledger nor a service for that",
    "policy compare": "as policy solve",
    "policy list": "prints what there is in the program",
    "policy solve": "works out the problem of files, and needs neither a ledger nor a service",
    "report": "reads an export or a ledger's file, which an auditor may have without a service",
    "whatif": "plays a ledger's file again, for as long as that takes",
    "forecast score": "reads a ledger's file again from its beginning",
    "simulate": "plays jobs of a file, and needs neither a ledger nor a service",
    "trace inspect": "looks at a file, as simulate does",
    "trace convert": "as trace inspect",
    "trace generate": "draws from a seed and a file",
    "throughputs check": "looks at a file, and needs neither a ledger nor a service",
    "throughputs draw": "draws from a seed and a file",
    "throughputs estimate": "looks at a file, as throughputs check does",
}
"""Commands that call no service, with the reason."""
UNTYPED: Final = {
    **{
        f"put-{kind}": "`apply` sends the document, alone or with others"
        for kind in ("node", "pool", "owner", "budget", "system")
    },
    "calc": "the command works it out itself: see LOCAL",
    "owner-shares": "`usage` adds up the same time, and `get owners -o wide` has shares of now",
    "list-reports": "`simulate --report` writes the file that is listed",
    "show-report": "as list-reports",
    "queue-starts": "`plan` says it of one run",
    "run-reports": "`watch` asks only about a run at work; see tests/executor/test_watched_work.py",
    "watch-logs": "`logs -f` asks where output is kept; see tests/executor/test_log_streams.py",
}
"""Operations that no command calls, with the reason."""
AGAIN: Final = {
    "ledger replay": "asks what `get` asks, for a time that is past",
}
"""Commands that call the same operations as another command."""
VIEWS: Final[dict[str, set[str]]] = {
    "squeue": {"list-runs"},
    "sacct": {"list-runs"},
    "scancel": {"list-runs", "cancel-run"},
    "sinfo": {"list-nodes"},
    "diff": {"list-nodes"},
    "runs budgets": {"list-envelopes", "list-caps", "list-leases"},
    "runs leases": {"list-leases", "get-run"},
    "runs sponsors list": {"get-run"},
    "runs sponsors add": {"get-run", "submit-run"},
}
"""Commands that show results of other commands in another form, with the operations they call."""
RENAMED: Final = {"create-tenant": {"changes"}, "update-tenant": {"changes"}}
"""Parameters of client methods that have several fields in one mapping."""

NAMED: Final = (
    "node domain pool owner tenant budget envelope cap run reservation lease claim charge"
)
WAIT_S: Final = 10.0
every = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda each: each.name)


def commands(
    group: click.Group = quorate, before: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command and its words; `runs submit` is the same as `submit`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None, name
        if before == ("runs",) and found is quorate.get_command(context, name):
            continue
        if isinstance(found, click.Group):
            yield from commands(found, (*before, name))
        else:
            yield " ".join((*before, name)), found


COMMANDS: Final = dict(commands())


@dataclass
class Typed:
    """A service, and the operations that were called since the last look."""

    served: Served
    folder: Path
    furnished: Furnished
    asked: dict[str, float] = field(default_factory=dict)

    def type(self, words: list[str]) -> None:
        """Run a command; it may be refused, but not because of its syntax."""
        assert self.served.token is not None
        environ = {"QUORATE_SERVER": self.served.url, "QUORATE_TOKEN": self.served.token}
        with chdir(self.folder):
            code = main(words, Settings(environ=environ))
        assert code in (0, 1), words

    def told(self, wanted: set[str]) -> set[str]:
        """Return the operations that were called since the last call of this method.

        A request is counted when it is over, which the caller may know before the service does. So
        this waits for the ``wanted`` operations, and for the end of all other requests, which would
        otherwise be counted by the next call.
        """

        def look() -> dict[str, float] | None:
            counted = self._counted()
            is_whole = counted is not None and wanted <= _more(counted, self.asked)
            return counted if is_whole else None

        found = until(look, f"{wanted} are counted", tell=self._counted)
        told, self.asked = _more(found, self.asked), found
        return told

    def _counted(self) -> dict[str, float] | None:
        """Return how often each operation was called; None while a request is under way."""
        text = self.furnished.admin.get("/metrics").text
        found: dict[str, float] = {}
        under_way = 0.0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = sample.labels
                if labels.get("surface") != "rest":
                    continue
                if sample.name == "quorate_requests_total":
                    name = labels["operation"]
                    found[name] = found.get(name, 0.0) + sample.value
                elif sample.name == "quorate_requests_in_flight":
                    under_way = sample.value
        return found if under_way == 1 else None  # The request for metrics itself.


def _more(now: Mapping[str, float], before: Mapping[str, float]) -> set[str]:
    """Return the operations with higher counts than before, without the request for metrics."""
    return {name for name, count in now.items() if count > before.get(name, 0.0)} - {"metrics"}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    """Return a service with one resource of each kind, which counts the called operations."""
    folder = tmp_path_factory.mktemp("typed")
    ledger = new_ledger(folder)
    (folder / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH --gpus=H100:8\n#SBATCH --account=rai\ntrue\n", encoding="utf-8"
    )
    with serving(ledger) as served, served.client(served.token) as admin:
        found = Typed(served, folder, Furnished(admin))
        found.told(set())
        yield found


def lines(command: str, kinds: dict[str, str]) -> list[str]:
    """Return the command lines with which ``command`` calls all its operations."""
    match command:
        case "get" | "ledger replay":
            word = command if command == "get" else f"ledger replay --at {kinds['at']}"
            names = [f"{kind} {kinds[kind]}" for kind in (*NAMED.split(), "resolveroutcome")]
            plurals = [f"{name.split()[0]}s" for name in names]
            return [f"{word} {what}" for what in (*names, *plurals, "queue", "system")]
        case "describe":
            return [f"describe {kind} {name}" for kind, name in kinds.items() if kind != "at"] + [
                "describe system"
            ]
        case "patch":
            return [
                "patch node a1 --set spec.gpus=8",
                "patch pool interactive --set spec.maxGrace=1m",
                f"patch owner {TENANT} --set spec.quota.maxNodes=60",
                f"patch budget {TENANT} --set spec.envelopes[west].concurrency=96",
                "patch system --set spec.budgetPeriodDays=90",
            ]
        case "delete":
            return [
                f"delete node {kinds['node']} {DRY}",
                f"delete pool interactive {DRY}",
                f"delete budget {TENANT} {DRY}",
                f"delete owner {TENANT} {DRY}",
            ]
        case _:
            return LINES[command]


DRY: Final = "--dry-run"
LINES: Final = {
    "apply": [f"apply -f {EXAMPLES / 'fleet.yaml'}"],
    "submit": [
        f"submit --like steady --name other {DRY}",
        f"submit -f {EXAMPLES / 'train.yaml'} {DRY}",
    ],
    "sbatch": [f"sbatch {DRY} job.sh"],
    "diff": [f"diff -f {EXAMPLES / 'fleet.yaml'}"],
    "squeue": ["squeue"],
    "sacct": ["sacct -S 2020-01-01"],
    "scancel": [f"scancel steady {DRY}"],
    "sinfo": ["sinfo"],
    "queue": ["queue"],
    "runs budgets": ["runs budgets usage"],
    "runs leases": ["runs leases steady"],
    "runs sponsors list": ["runs sponsors list steady"],
    "runs sponsors add": [f"runs sponsors add steady core --name other {DRY}"],
    "top": ["top", "top --nodes"],
    "waldur status": ["waldur status"],
    "plan": ["plan promised", f"plan -f {EXAMPLES / 'train.yaml'} {DRY}"],
    "explain": ["explain promised"],
    "watch": ["watch --count 2 --interval 500ms"],
    "notices": ["notices", "notices -f --from 1 --count 1"],
    "logs": ["logs steady"],
    "complete": [f"complete steady {DRY}"],
    "fail": [f"fail steady {DRY}"],
    "cancel": [f"cancel steady {DRY}"],
    "shrink": [f"shrink malleable --to 8 {DRY}"],
    "node fail": [f"node fail a1 {DRY}"],
    "node recover": [f"node recover b6 {DRY}"],
    "node cordon": [f"node cordon a1 {DRY}"],
    "node uncordon": [f"node uncordon a1 {DRY}"],
    "node drain": [f"node drain a1 {DRY}"],
    "node wiped": [f"node wiped a1 {DRY}"],
    "claim": [f"claim --flavor L40 --nodes 1 --for 8h --owner {TENANT} --pool interactive {DRY}"],
    "release": [f"release quiet {DRY}"],
    "resolve": [f"resolve --scope flavor=H100 --deficit 8 {DRY}"],
    "admin tenant create": [f"admin tenant create new {DRY}"],
    "admin tenant update": [f"admin tenant update {TENANT} --max-nodes 50 {DRY}"],
    "admin tenant delete": [f"admin tenant delete empty {DRY}"],
    "admin tenant get": [
        f"admin tenant get {TENANT} -o json",
        f"admin tenant get {TENANT}",
        f"admin tenant get {TENANT} core -o json",
    ],
    "admin tenant list": ["admin tenant list"],
    "admin clock show": ["admin clock show"],
    "admin clock accept": ["admin clock accept"],
    "cluster status": ["cluster status"],
    "cluster members": ["cluster members"],
    "cluster step-down": ["cluster step-down"],
    "token issue": [f"token issue --role user --user {USER} --tenant {TENANT} {DRY}"],
    "token list": ["token list"],
    "token revoke": [f"token revoke nothing {DRY}"],
    "whoami": ["whoami"],
    "tick": [f"tick {DRY}"],
    "lottery show": ["lottery show"],
    "lottery verify": ["lottery verify"],
    "ledger log": ["ledger log"],
    "ledger verify": ["ledger verify", "ledger verify --against signed.json"],
    "ledger checkpoint": ["ledger checkpoint --out signed.json"],
    "ledger export": ["ledger export"],
    "usage": [f"usage --tenant {TENANT}", f"usage --user {USER}"],
    "statement": ["statement"],
}
"""The lines of each command, in the order of the table if one line needs the result of another."""


@every
def test_an_operation_has_a_command(operation: Operation) -> None:
    assert operation.cli, operation.name
    assert set(operation.cli) <= COMMANDS.keys()


def test_a_command_asks_for_something_or_says_why_not() -> None:
    asking = {command for operation in OPERATIONS.values() for command in operation.cli}
    assert COMMANDS.keys() == asking | LOCAL.keys() | AGAIN.keys() | VIEWS.keys()
    assert not (AGAIN.keys() | VIEWS.keys()) & asking
    assert UNTYPED.keys() < OPERATIONS.keys()


def in_order() -> list[str]:
    """Return the commands that call a service; a command that signs is before its verifiers."""
    found = [command for command in COMMANDS if command not in LOCAL]
    return sorted(found, key=lambda command: command != "ledger checkpoint")


def test_each_command_asks_for_what_the_table_says(typed: Typed) -> None:
    as_of = typed.furnished.admin.get("/api/v1/picture").json()["asOf"]
    kinds = typed.furnished.kinds | {"at": as_of}
    typed.told(set())
    for command in in_order():
        source = "get" if command in AGAIN else command
        table = {each.name for each in OPERATIONS.values() if source in each.cli}
        wanted = VIEWS.get(command, table - UNTYPED.keys())
        for line in lines(command, kinds):
            typed.type(line.split())
        asked = typed.told(wanted)
        assert asked - ASIDE.get(command, set()) == wanted, command


ASIDE: Final[dict[str, set[str]]] = {
    "sbatch": {"list-domains", "whoami"},
    "squeue": {"list-leases"},
    "sacct": {"list-leases"},
    "scancel": {"list-leases"},
    **{each: {"list-runs"} for each in ("complete", "fail", "cancel", "describe")},
}
"""Operations that commands call to look something up first."""


def test_every_operation_has_a_route(typed: Typed) -> None:
    with typed.served.client(None) as client:
        paths = client.get("/openapi.json").json()["paths"]
    found = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path)): entry["operationId"]
        for path, methods in paths.items()
        for method, entry in methods.items()
    }
    wanted = {
        (each.method, re.sub(r"\{\w+\}", "{}", f"/api/v1{each.path}")): each.function_name
        for each in OPERATIONS.values()
    }
    assert found == wanted


@every
def test_every_operation_is_a_method_of_grpc_with_all_its_fields(operation: Operation) -> None:
    (method,) = [each for each in schema().methods if each.operation is operation]
    (service,) = [each for each in description().service if each.name == method.service]
    (told,) = [each for each in service.method if each.name == operation.rpc_name]
    (message,) = [
        each
        for each in description().message_type
        if each.name == told.input_type.rpartition(".")[2]
    ]
    fields = {each.name.rstrip("_") for each in message.field}
    assert fields == {each.rstrip("_") for each in operation.takes.__struct_fields__}


@pytest.mark.parametrize("client", [Client, AsyncClient])
@every
def test_every_operation_is_a_method_of_a_client(operation: Operation, client: type[Any]) -> None:
    method = getattr(client, operation.function_name)
    parameters = inspect.signature(method).parameters.keys() - {"self"}
    assert parameters == set(operation.takes.__struct_fields__) | RENAMED.get(operation.name, set())
