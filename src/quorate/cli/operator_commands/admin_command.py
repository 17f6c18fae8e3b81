"""``quorate admin``: tenants, and the clock of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorate.cli.global_options import examples, reader, writer
from quorate.cli.settings import Settings, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

F = TypeVar("F", bound="Callable[..., Any]")

_LIMITS = (
    (("--max-nodes",), "N", "At most N nodes at once, including those of owners below it."),
    (
        ("--max-concurrent-allocations", "--max-concurrent-runs"),
        "N",
        "At most N running runs at once, including those of owners below it.",
    ),
    (("--gpu-hours-budget",), "HOURS", "GPU-hours per period; above them, runs wait longer."),
    (("--node-hours-budget",), "HOURS", "Node-hours per period; above them, runs wait longer."),
    (("--fair-share-target",), "SHARE", "The target share of the fleet, from 0 to 1."),
    (
        ("--burst-allowance",),
        "FACTOR",
        "How far the tenant may exceed its target share while other owners leave GPUs idle.",
    ),
)


def _limits(command: F) -> F:
    """Return ``command`` with ``--parent`` and an option for each limit of a tenant.

    Values are parsed as in documents.
    """
    parent = click.option(
        "--parent",
        "parents",
        metavar="NAME",
        multiple=True,
        help="A parent of the owner. May be repeated.",
    )
    command = parent(command)
    for flags, metavar, text in reversed(_LIMITS):
        # The parameter is named after the first form of the option, whichever form was typed.
        name = flags[0].removeprefix("--").replace("-", "_")
        command = click.option(*flags, name, metavar=metavar, help=text)(command)
    return command


def _reasoned(command: F) -> F:
    """Return ``command`` with ``--reason`` and the options of a writer."""
    reason = click.option(
        "--reason", metavar="TEXT", default="", help="The reason; kept in the ledger."
    )
    return reason(writer(command))


def _versioned(command: F) -> F:
    """Return ``command`` with ``--expected-version``."""
    return click.option(
        "--expected-version",
        metavar="N",
        type=click.IntRange(min=1),
        help="Refuse the change if the tenant no longer has version N.",
    )(command)


@click.group(epilog=examples("quorate admin tenant list", "quorate admin tenant get vision"))
def admin() -> None:
    """Create, change and remove tenants."""


@admin.group(
    epilog=examples(
        "quorate admin tenant create physics --max-nodes 200 --fair-share-target 0.15",
        "quorate admin tenant update vision --max-nodes 250 --dry-run",
        "quorate admin tenant list -o wide",
    )
)
def tenant() -> None:
    """Manage tenants, which documents call owners.

    A limit that is not set does not apply, and 0 allows nothing. A limit on nodes or runs is hard,
    and also counts what owners below the tenant use. Lowering a limit stops no run: new work waits
    until usage has dropped below the limit. Every change is recorded with its actor and reason.
    """


@tenant.command(
    epilog=examples(
        "quorate admin tenant create physics",
        "quorate admin tenant create physics --max-nodes 200 --max-concurrent-allocations 50",
        'quorate admin tenant create optics --parent rai --reason "a new group"',
    )
)
@click.argument("name")
@_limits
@_reasoned
@click.pass_obj
def create(
    settings: Settings,
    /,
    *,
    name: str,
    parents: tuple[str, ...],
    reason: str,
    dry_run: bool,
    **limits: str | None,
) -> None:
    """Create a tenant."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.tenant_operations import CreateTenant
    from quorate.views.kinds.tenant_fields import read_owner

    given = _given(limits)
    read_owner(_plain_name(name), given, parents, is_new=True, is_typed=True)
    asked = CreateTenant(
        id=_plain_name(name),
        parents=parents,
        reason=_checked(reason),
        dry_run=dry_run,
        **_exact(given),
    )
    ask(settings, "create-tenant", asked)


@tenant.command(
    epilog=examples(
        'quorate admin tenant update vision --max-nodes 250 --reason "contract 17"',
        "quorate admin tenant update vision --fair-share-target 0.2 --unset max_nodes",
        "quorate admin tenant update vision --parent rai --dry-run",
    )
)
@click.argument("name")
@_limits
@click.option(
    "--unset",
    "unset",
    metavar="FIELD",
    multiple=True,
    help="A field to unset, such as max_nodes or parents. May be repeated.",
)
@_versioned
@_reasoned
@click.pass_obj
def update(
    settings: Settings,
    /,
    *,
    name: str,
    parents: tuple[str, ...],
    unset: tuple[str, ...],
    expected_version: int | None,
    reason: str,
    dry_run: bool,
    **limits: str | None,
) -> None:
    """Change only the fields that are given.

    --parent replaces all parents of the tenant by those given.
    """
    from msgspec import UNSET

    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.tenant_operations import UpdateTenant
    from quorate.views.kinds.tenant_fields import PARENTS, read_owner, unset_fields

    name, given = _plain_name(name), _given(limits)
    gone = unset_fields(unset, given, parents)
    if not (given or gone or parents):
        raise click.UsageError("nothing to change; give a field, --parent or --unset")
    read_owner(name, given, parents, is_new=False, is_typed=True)
    asked = UpdateTenant(
        id=name,
        parents=parents if parents or PARENTS in gone else UNSET,
        reason=_checked(reason),
        if_match=None if expected_version is None else str(expected_version),
        dry_run=dry_run,
        **_exact(given),
        **dict.fromkeys(gone - {PARENTS}),
    )
    ask(settings, "update-tenant", asked)


@tenant.command(
    epilog=examples(
        'quorate admin tenant delete vision --reason "project over"',
        "quorate admin tenant delete vision --dry-run     # is it possible?",
    )
)
@click.argument("name")
@_versioned
@_reasoned
@click.pass_obj
def delete(
    settings: Settings, *, name: str, expected_version: int | None, reason: str, dry_run: bool
) -> None:
    """Remove a tenant without runs and children.

    The command is refused while the tenant has children, runs that run or wait, or budgets that pay
    or hold money for others. The tenant's idle budgets are removed, too. The ledger keeps the usage
    and the past runs of the tenant.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.tenant_operations import DeleteTenant

    asked = DeleteTenant(
        id=_plain_name(name),
        reason=_checked(reason),
        if_match=None if expected_version is None else str(expected_version),
        dry_run=dry_run,
    )
    ask(settings, "delete-tenant", asked)


@tenant.command(
    epilog=examples("quorate admin tenant get vision", "quorate admin tenant get rai -o json")
)
@click.argument("tenants", metavar="NAME...", nargs=-1, required=True)
@reader
@click.pass_obj
def get(settings: Settings, *, tenants: tuple[str, ...]) -> None:
    """Show tenants with their limits, their usage and their versions.

    Like the limits, the numbers of nodes and of running and waiting runs include the owners below a
    tenant.
    """
    from quorate.cli.ask_and_print import ask, ask_each
    from quorate.operations.resources.resource_operations import GetThing, ListThings

    wanted = tuple(_plain_name(name) for name in tenants)
    if settings.is_table:
        ask_each(settings, "describe-tenant", [GetThing(name=name) for name in wanted])
    elif len(wanted) == 1:
        ask(settings, "get-tenant", GetThing(name=wanted[0]))
    else:
        ask(settings, "list-tenants", ListThings(names=wanted))


@tenant.command(
    "list",
    epilog=examples("quorate admin tenant list", "quorate admin tenant list -o wide"),
)
@reader
@click.pass_obj
def list_tenants(settings: Settings) -> None:
    """List all tenants.

    NODES and RUNNING show usage and limit, including the owners below a tenant.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.resource_operations import ListThings

    ask(settings, "list-tenants", ListThings())


def _plain_name(name: str) -> str:
    """Return the tenant's name; also accepts ``owner/NAME``, which other commands print."""
    return name.removeprefix("tenant/").removeprefix("owner/")


def _given(limits: Mapping[str, str | None]) -> dict[str, str]:
    return {field: text for field, text in limits.items() if text is not None}


def _checked(reason: str) -> str:
    from quorate.cli.commands.finish_command import NOTE_CHARS_MAX

    return one_line(reason, "--reason", NOTE_CHARS_MAX) if reason else ""


def _exact(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the limits as typed, so that no digit is lost."""
    return dict(given)


@admin.group(epilog=examples("quorate admin clock --help"))
def clock() -> None:
    """Show the clock of a service, or accept its time after a jump."""


@clock.command("show", epilog=examples("quorate admin clock show --help"))
@reader
@click.pass_obj
def show_clock(settings: Settings) -> None:
    """Show whether the service trusts its clock."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "show-clock", Nothing())


@clock.command("accept", epilog=examples("quorate admin clock accept --help"))
@reader
@click.pass_obj
def accept_clock(settings: Settings) -> None:
    """Accept the current time of the service's clock.

    The service stops deciding when its wall clock and the time since boot disagree by more than
    five minutes. Correct the clock first: the ledger's time never runs back.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "accept-clock", Nothing())
