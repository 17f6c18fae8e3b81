"""``quorate token``: access tokens, issued, listed and revoked; and ``quorate whoami``."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, reader, writer
from quorate.cli.settings import Settings


@click.group(
    epilog=examples(
        "quorate token issue --role user --tenant vision --user alice",
        "quorate token list",
    )
)
def token() -> None:
    """Issue, list and revoke access tokens.

    A token says who asks a service, in which role and for which tenant. Its secret is shown once,
    when it is issued; the ledger keeps a digest of it.
    """


@token.command(
    epilog=examples(
        "quorate token issue --role user --tenant vision --user alice --lifetime 30d",
        "quorate token issue --role user --tenant hospital --user dr-x --scope claim",
        "quorate token issue --role auditor --user erin --scope ledger --note 'yearly audit'",
    )
)
@click.option(
    "--role",
    type=click.Choice(("admin", "tenant-admin", "user", "auditor", "accounting")),
    required=True,
    help="What its holder may do.",
)
@click.option("--user", metavar="NAME", required=True, help="Who holds it; recorded as the actor.")
@click.option(
    "--tenant",
    metavar="NAME",
    default="",
    help="The tenant whose runs and budgets it gives access to.",
)
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help="Only for this area; `claim` adds the right to claim nodes. May be repeated.",
)
@click.option(
    "--lifetime", metavar="DURATION", default="90d", show_default=True, help="30d, 12h, or never."
)
@click.option("--note", metavar="TEXT", default="", help="What it is for; kept in the ledger.")
@writer
@click.pass_obj
def issue(  # noqa: PLR0917 - one parameter for each option
    settings: Settings,
    role: str,
    user: str,
    tenant: str,
    scopes: tuple[str, ...],
    lifetime: str,
    note: str,
    dry_run: bool,
) -> None:
    """Issue an access token, and show its secret this once."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.caller import Role
    from quorate.operations.operation import Scope
    from quorate.operations.service.service_operations import IssueToken
    from quorate.views.exits import CommandError, Exit

    known = {scope.value: scope for scope in Scope}
    wrong = [scope for scope in scopes if scope not in known]
    if wrong:
        raise CommandError(
            Exit.USAGE, f"--scope: there is no {wrong[0]!r}; choose among {', '.join(known)}"
        )
    asked = IssueToken(
        role=Role(role),
        user=user,
        tenant=tenant,
        scopes=tuple(known[scope] for scope in scopes),
        lifetime=lifetime,
        note=note,
        dry_run=dry_run,
    )
    ask(settings, "issue-token", asked)


@token.command("list", epilog=examples("quorate token list -o wide"))
@click.option("--tenant", metavar="NAME", help="Those of this tenant only.")
@click.option("--user", metavar="NAME", help="Those of this user only.")
@reader
@click.pass_obj
def list_(settings: Settings, tenant: str | None, user: str | None) -> None:
    """List access tokens, without their secrets."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.service.service_operations import ListTokens

    ask(settings, "list-tokens", ListTokens(tenant=tenant, user=user))


@token.command(
    epilog=examples(
        "quorate token revoke 1f0c2ab94d31",
        'quorate token revoke 1f0c2ab94d31 --note "laptop lost"',
    )
)
@click.argument("name", metavar="TOKEN")
@click.option("--note", metavar="TEXT", default="", help="Why; kept in the ledger.")
@writer
@click.pass_obj
def revoke(settings: Settings, name: str, note: str, dry_run: bool) -> None:
    """Revoke an access token, by its id."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.service.service_operations import RevokeToken

    ask(settings, "revoke-token", RevokeToken(token=name, note=note, dry_run=dry_run))


@click.command(epilog=examples("quorate whoami"))
@reader
@click.pass_obj
def whoami(settings: Settings) -> None:
    """Say who you are to the service, or to the file."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "whoami", Nothing())
