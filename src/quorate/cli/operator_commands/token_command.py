"""``quorate token``: issues, lists and revokes access tokens; and ``quorate whoami``."""

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

    A token identifies the caller of a service, with a role and a tenant. The secret of a token is
    shown once, when the token is issued; the ledger stores only a digest of the secret.
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
    help="The role, which determines the holder's permissions.",
)
@click.option(
    "--user", metavar="NAME", required=True, help="The user of the token; recorded as the actor."
)
@click.option(
    "--tenant",
    metavar="NAME",
    default="",
    help="The tenant whose runs and budgets the token gives access to.",
)
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help="Restrict the token to this area; `claim` adds the right to claim nodes. May be repeated.",
)
@click.option(
    "--lifetime", metavar="DURATION", default="90d", show_default=True, help="30d, 12h, or never."
)
@click.option("--note", metavar="TEXT", default="", help="The purpose; kept in the ledger.")
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
    """Issue an access token, and show its secret only once."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.caller import Role
    from quorate.operations.operation import Scope
    from quorate.operations.service.service_operations import IssueToken
    from quorate.views.exits import CommandError, Exit

    known = {scope.value: scope for scope in Scope}
    wrong = [scope for scope in scopes if scope not in known]
    if wrong:
        raise CommandError(
            Exit.USAGE, f"--scope: unknown scope {wrong[0]!r}; use {', '.join(known)}"
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
@click.option("--tenant", metavar="NAME", help="Only tokens of this tenant.")
@click.option("--user", metavar="NAME", help="Only tokens of this user.")
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
@click.option("--note", metavar="TEXT", default="", help="The reason; kept in the ledger.")
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
    """Show the user name that the service, or the ledger's file, records for you."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "whoami", Nothing())
