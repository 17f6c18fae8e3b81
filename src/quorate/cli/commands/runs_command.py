"""``quorate runs`` and ``kubectl runs``: the commands for runs as one group.

Most of these commands are also commands of ``quorate`` itself. ``kubectl`` runs the program
``kubectl-runs`` for ``kubectl runs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from quorate.cli.command_table import COMMANDS, CommandTable
from quorate.cli.completing import names_of
from quorate.cli.global_options import (
    actor_option,
    examples,
    ledger_options,
    output_option,
    reader,
    writer,
)
from quorate.cli.lazy_group import LazyGroup
from quorate.cli.resource_names import NAMESPACE
from quorate.cli.settings import Settings

_OWN: Final = "quorate.cli.commands.runs_command"
_SAME: Final = (
    *("submit", "plan", "watch", "explain", "shrink", "resolve"),
    *("queue", "logs", "complete", "cancel"),
)
"""The commands of this group that ``quorate`` itself has under the same name."""
TABLE: Final[CommandTable] = {
    **{name: COMMANDS[name] for name in _SAME},
    "budgets": (_OWN, "budgets", "Show how many GPUs each envelope pays for, and its headroom."),
    "leases": (_OWN, "leases", "List the leases of a run, or of all runs."),
    "sponsors": (_OWN, "sponsors", "Show who lends to a run, or ask for more lenders."),
}


_NAMED: Final = frozenset(TABLE) - {"submit", "resolve", "queue", "budgets"}
"""The commands whose argument is an existing run."""
_NAMESPACE: Final = ("-n", "--namespace")


class RunsGroup(LazyGroup):
    """The group of commands. As in kubectl, ``-n NAMESPACE`` may be anywhere on the line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the namespace first, and return the remaining arguments."""
        return super().parse_args(ctx, with_namespace_first(args))


def with_namespace_first(args: Sequence[str]) -> list[str]:
    """Return ``args`` with the namespace before the command; words after ``--`` do not move.

    Raises ``UsageError`` if the name of the namespace is missing.
    """
    end = list(args).index("--") if "--" in args else len(args)
    first: list[str] = []
    rest: list[str] = []
    words = iter(args[:end])
    for word in words:
        if word in _NAMESPACE:
            name = next(words, None)
            if name is None:
                raise click.UsageError(f"{word} needs the name of a namespace")
            first += [word, name]
        elif word.startswith("--namespace="):
            first.append(word)
        else:
            rest.append(word)
    return [*first, *rest, *args[end:]]


def run() -> None:
    """Run ``kubectl-runs`` as a program."""
    from quorate.cli.main import run_program

    run_program(runs, "kubectl runs")


@click.group(
    cls=RunsGroup,
    table=TABLE,
    context_settings={"max_content_width": 100},
    epilog=examples(
        "quorate runs submit --file run.yaml",
        "quorate runs explain train-1",
        "quorate runs budgets usage --owner rai",
        "quorate runs resolve --scope flavor=H100,domain=A --deficit 8 --dry-run",
    ),
)
@click.option(
    *_NAMESPACE,
    metavar="NAME",
    help="RUN is a custom resource in this namespace; kubectl reads it with your rights.",
)
@ledger_options
@output_option
@actor_option
@click.pass_context
def runs(ctx: click.Context, *, namespace: str | None) -> None:
    """Submit, plan, watch and shrink runs, as `kubectl runs` does.

    With the program `kubectl-runs` on the path, `kubectl runs explain train-1` is the same as
    `quorate runs explain train-1`. The service is chosen as for every other command.
    """
    if namespace is None:
        return
    if ctx.invoked_subcommand not in _NAMED:
        word = ctx.invoked_subcommand
        raise click.UsageError(f"-n is the namespace of a run; {word} has no run: remove -n")
    ctx.meta[NAMESPACE] = namespace


@click.command(
    epilog=examples(
        "quorate runs budgets",
        "quorate runs budgets usage --owner rai",
        "quorate runs budgets usage -o json",
    )
)
@click.argument("what", metavar="[usage]", type=click.Choice(("usage",)), required=False)
@click.option(
    "--owner",
    metavar="OWNER",
    help="Only envelopes of this owner.",
    shell_complete=names_of("owner"),
)
@reader
@click.pass_obj
def budgets(settings: Settings, *, what: str | None, owner: str | None) -> None:
    """Show how many GPUs each envelope pays for, and its headroom.

    OWNED counts the GPUs of the owner's own runs, SHARED those of runs of its family, and BORROWED
    those lent to other owners. HEADROOM is how many more GPUs the envelope could pay for at once,
    within its limit and its caps; outside the envelope's window, HEADROOM is 0.
    """
    from quorate.cli.ask_and_print import tree_asked
    from quorate.cli.printing import print_lines, print_tree
    from quorate.model.api_version import API_VERSION
    from quorate.operations.resources.resource_operations import ListThings
    from quorate.views.money.envelope_usage import COLUMNS, envelope_usage
    from quorate.views.table import table

    del what  # The argument has only one valid value.
    trees = [
        tree_asked(settings, f"list-{kind}", ListThings())["items"]
        for kind in ("envelopes", "caps", "leases")
    ]
    found = [each for each in envelope_usage(*trees) if owner in (None, each.owner)]
    if not settings.is_table:
        items = [each.tree() for each in found]
        print_tree(settings, {"apiVersion": API_VERSION, "kind": "List", "items": items})
    elif found:
        print_lines([table(COLUMNS, [each.row() for each in found])])
    else:
        click.echo("there are no envelopes" + ("" if owner is None else f" of {owner}"), err=True)


@click.command(
    epilog=examples(
        "quorate runs leases", "quorate runs leases train-1", "quorate runs leases train-1 -o json"
    )
)
@click.argument("run", required=False, shell_complete=names_of("run"))
@reader
@click.pass_obj
def leases(settings: Settings, *, run: str | None) -> None:
    """List the leases of a run, or of all runs.

    A lease is a group of GPUs that one envelope pays for. PAID-UNTIL is extended while the run
    works and the envelope has money.
    """
    from quorate.cli.ask_and_print import tree_asked
    from quorate.cli.printing import print_lines, print_tree
    from quorate.operations.resources.resource_operations import ListThings
    from quorate.views.table import Column, right, table

    tree = tree_asked(settings, "list-leases", ListThings())
    if run is not None:
        name = _checked_run(settings, run)["metadata"]["name"]
        tree["items"] = [each for each in tree["items"] if each["status"]["run"] == name]
    if not settings.is_table:
        print_tree(settings, tree)
        return
    if not tree["items"]:
        click.echo("there are no leases" if run is None else f"{run} has no leases", err=True)
        return
    columns = (
        *(Column("LEASE"), Column("ROLE"), right("GPUS"), Column("ENVELOPE"), Column("TIER")),
        *(Column("START"), Column("PAID-UNTIL")),
    )
    rows = [
        (
            *(each["metadata"]["name"], status["role"], str(status["gpus"]), status["payer"]),
            *(status["tier"], status["start"], status["holdEnds"]),
        )
        for each in tree["items"]
        for status in (each["status"],)
    ]
    print_lines([table(columns, rows)])


@click.group(
    epilog=examples(
        "quorate runs sponsors list train-1",
        "quorate runs sponsors add train-1 partner --max 8 --name train-2 --dry-run",
    )
)
def sponsors() -> None:
    """Show who lends to a run, or ask for more lenders."""


@sponsors.command("list", epilog=examples("quorate runs sponsors list train-1"))
@click.argument("run", shell_complete=names_of("run"))
@reader
@click.pass_obj
def list_sponsors(settings: Settings, *, run: str) -> None:
    """Show from whom a run may borrow, and what it borrows now."""
    from quorate.cli.printing import print_lines, print_tree
    from quorate.views.table import Column, right, table
    from quorate.views.word_forms import hours

    found = _checked_run(settings, run)
    funding, status = found["spec"].get("funding", {}), found["status"]["funding"]
    if not settings.is_table:
        print_tree(settings, {"run": found["metadata"]["name"], "spec": funding, "status": status})
        return
    name = found["metadata"]["name"]
    if not funding.get("allowBorrow"):
        click.echo(f"run/{name} may not borrow")
    else:
        most = funding.get("maxBorrowGPUs")
        named = ", ".join(funding.get("sponsors", ())) or "any lender"
        bound = "" if most is None else f" at most {most} GPUs"
        click.echo(f"run/{name} may borrow{bound} from {named}")
    lent = [each for each in status["payers"] if each["tier"] == "borrowed"]
    if lent:
        rows = [(each["envelope"], str(each["gpus"]), hours(each["spentGPUMs"])) for each in lent]
        columns = (Column("LENT-FROM"), right("GPUS"), right("GPU-HOURS"))
        print_lines([table(columns, rows)])


@sponsors.command(
    "add",
    epilog=examples(
        "quorate runs sponsors add train-1 partner --max 8 --name train-2 --dry-run",
    ),
)
@click.argument("run", shell_complete=names_of("run"))
@click.argument("names", metavar="SPONSOR...", nargs=-1, required=True)
@click.option(
    "--max",
    "gpus_max",
    metavar="GPUS",
    type=click.IntRange(min=1),
    help="The maximal number of borrowed GPUs.  [default: that of RUN]",
)
@click.option("--name", metavar="NEW", required=True, help="The name of the new run.")
@writer
@click.pass_obj
def add_sponsors(
    settings: Settings,
    *,
    run: str,
    names: tuple[str, ...],
    gpus_max: int | None,
    name: str,
    dry_run: bool,
) -> None:
    """Submit a copy of a run that may borrow from more owners.

    The funding of a submitted run never changes, because its payers rely on this funding.
    Therefore the copy is a new run. Cancel the old run after you have submitted the copy.
    """
    import json

    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.run_operations import SubmitRun

    found = _checked_run(settings, run)
    funding = found["spec"].get("funding", {})
    wanted = list(dict.fromkeys((*funding.get("sponsors", ()), *names)))
    assignments = ["spec.funding.allowBorrow=true", f"spec.funding.sponsors={json.dumps(wanted)}"]
    if gpus_max is not None:
        assignments.append(f"spec.funding.maxBorrowGPUs={gpus_max}")
    old = found["metadata"]["name"]
    asked = SubmitRun(like=old, name=name, assignments=tuple(assignments), dry_run=dry_run)
    ask(settings, "submit-run", asked)


def _checked_run(settings: Settings, word: str) -> dict[str, Any]:
    """Return the tree of the run that ``word`` names; raises ``CommandError`` if it is unknown."""
    from quorate.cli.ask_and_print import tree_asked
    from quorate.cli.typed_names import run_name
    from quorate.operations.resources.resource_operations import GetThing

    found: dict[str, Any] = tree_asked(settings, "get-run", GetThing(name=run_name(word)))
    return found
