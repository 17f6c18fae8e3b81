"""``quorate delete``: remove nodes, pools, budgets and owners that nothing depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from quorate.cli.completing import kinds, names_of_kind
from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings, one_line

if TYPE_CHECKING:
    from quorate.operations.common_requests import Asked

_DELETED: Final = ("node", "pool", "budget", "owner")
_ELSEWHERE: Final = {
    "run": "quorate cancel NAME",
    "claim": "quorate release NAME",
    "token": "quorate token revoke ID",
    "context": "quorate context delete NAME",
}
"""Maps a kind that cannot be deleted to the command that ends a resource of this kind."""
_REASON_CHARS_MAX: Final = 1000


@click.command(
    epilog=examples(
        'quorate delete node a7 a8 --reason "returned to the vendor"',
        "quorate delete budget hospital --dry-run",
        "quorate delete owner/hospital",
    )
)
@click.argument("kind", shell_complete=kinds)
@click.argument("names", metavar="NAME...", nargs=-1, shell_complete=names_of_kind)
@click.option("--reason", metavar="TEXT", default="", help="The reason; kept in the ledger.")
@writer
@click.pass_obj
def delete(
    settings: Settings, *, kind: str, names: tuple[str, ...], reason: str, dry_run: bool
) -> None:
    """Remove nodes, pools, budgets and owners that are not in use.

    KIND is node, pool, budget or owner. A node must have no work on it (quorate node drain), a pool
    must have no runs, a budget must pay for no runs, and an owner must have neither runs nor
    children. With an owner, its idle budgets and its tokens are removed, too. Firm starts that need
    a removed node or budget are planned again. The ledger keeps the history, and a resource of the
    same name can be applied again.
    """
    from quorate.cli.ask_and_print import ask, ask_each
    from quorate.operations.resources.resource_operations import DeleteThing
    from quorate.operations.resources.tenant_operations import DeleteTenant
    from quorate.views.kind_names import kind_named, split_target

    if "/" in kind and names:
        kind, names = kind.partition("/")[0], (kind, *names)
    kind, names = split_target(kind, names)
    other = kind.lower().removesuffix("s")
    if other in _ELSEWHERE:
        raise click.UsageError(
            f"a {other} cannot be deleted; to end it, write: {_ELSEWHERE[other]}"
        )
    found = kind_named("owner" if other == "tenant" else kind).name
    if found not in _DELETED:
        raise click.UsageError(
            f"{found}: cannot be deleted; only a node, pool, budget or owner can"
        )
    if not names:
        raise click.UsageError(f"which {found}? write: quorate delete {found} NAME")
    why = one_line(reason, "--reason", _REASON_CHARS_MAX) if reason else ""
    asked: list[Asked] = [
        DeleteTenant(id=name, reason=why, dry_run=dry_run)
        if found == "owner"
        else DeleteThing(name=name, reason=why, dry_run=dry_run)
        for name in dict.fromkeys(name.removeprefix(f"{kind}/") for name in names)
    ]
    operation = "delete-tenant" if found == "owner" else f"delete-{found}"
    if len(asked) == 1:
        ask(settings, operation, asked[0])
    else:
        ask_each(settings, operation, asked)
