"""``quorate context``: the services that a user has named, and the one that commands use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorate.cli.completing import context_names
from quorate.cli.global_options import examples, output_option
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from quorate.client.contexts import Config, Context


@click.group(
    epilog=examples(
        "quorate context set lab --server http://127.0.0.1:8414 --token-file lab.token",
        "quorate context list",
    )
)
def context() -> None:
    """Choose the service that commands use.

    A context is the address of a service and your token for it. Without a context, commands work on
    the ledger's file; the context name `file` means the same. --context and QUORATE_CONTEXT choose
    a context for one command or one shell. --server and QUORATE_SERVER, with QUORATE_TOKEN, need no
    context. QUORATE_TOKEN alone takes precedence over the context's token.
    """


@context.command("list", epilog=examples("quorate context list", "quorate context list -o json"))
@output_option
@click.pass_obj
def list_contexts(settings: Settings) -> None:
    """List the contexts; a star marks the current one. Tokens are not shown."""
    from quorate.cli.printing import print_lines, print_tree
    from quorate.views.table import Column, table

    _, config = _load(settings)
    if not settings.is_table:
        items = [_tree(name, each, config) for name, each in config.contexts.items()]
        print_tree(settings, {"current": config.current, "contexts": items})
        return
    if not config.contexts:
        click.echo("there are no contexts; commands work on the ledger's file", err=True)
        return
    columns = (Column(""), Column("NAME"), Column("SERVER"), Column("TOKEN"), Column("CA-FILE"))
    rows = [
        (
            "*" if name == config.current else "",
            name,
            each.server,
            _token_text(each),
            each.ca_file or "-",
        )
        for name, each in config.contexts.items()
    ]
    print_lines([table(columns, rows)])


@context.command(
    epilog=examples(
        "quorate context use lab",
        "quorate context use file          # back to the ledger's file",
    )
)
@click.argument("name", shell_complete=context_names)
@click.pass_obj
def use(settings: Settings, name: str) -> None:
    """Make a context the current one; `file` means the ledger's file."""
    from msgspec.structs import replace

    from quorate.client.contexts import FILE

    path, config = _load(settings)
    if name != FILE:
        with _told():
            config.named(name)
    _save(path, replace(config, current=None if name == FILE else name))
    if name == FILE:
        click.echo("commands now use the ledger's file")
    else:
        click.echo(f"commands now use {config.contexts[name].server}, context {name!r}")
    _overridden(settings)


@context.command(
    "set",
    epilog=examples(
        "quorate context set lab --server http://127.0.0.1:8414 --token-file lab.token",
        "cat lab.token | quorate context set lab --server https://quorate.lab:8414 --token -",
    ),
)
@click.argument("name", shell_complete=context_names)
@click.option(
    "--server",
    metavar="URL",
    help="The address of the service, or URL,URL,... of services of one ledger.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(),
    help="The file that holds the token; it is read for each command.",
)
@click.option("--token", metavar="-", help="Read the token from standard input, and store it.")
@click.option(
    "--ca-file",
    metavar="FILE",
    type=click.Path(),
    help="Trust the certificates in this file, in addition to those of this machine.",
)
@click.pass_obj
def set_context(
    settings: Settings,
    *,
    name: str,
    server: str | None,
    token_file: str | None,
    token: str | None,
    ca_file: str | None,
) -> None:
    """Create a context, or change the given fields of an existing one.

    The first context becomes the current one; `quorate context use NAME` chooses another. A token
    cannot be given on the command line itself, where other users could see it.
    """
    from msgspec.structs import replace

    from quorate.client.contexts import Context

    if token is not None and token_file is not None:
        raise click.UsageError("give either --token - or --token-file FILE")
    path, config = _load(settings)
    known = config.contexts.get(name)
    if known is None and server is None:
        raise click.UsageError(f"there is no context {name!r} yet; to create it, give --server URL")
    found = known or Context(server=str(server))
    if server is not None:
        if known is not None and known.token and server != known.server and token is None:
            # A token that one service issued is not sent to another service.
            found = replace(found, token=None)
            click.echo("the stored token was removed, because the server has changed", err=True)
        found = replace(found, server=server)
    if token_file is not None:
        found = replace(found, token=None, token_file=_absolute(token_file))
    if token is not None:
        found = replace(found, token=_typed_token(token), token_file=None)
    if ca_file is not None:
        found = replace(found, ca_file=_absolute(ca_file))
    with _told():
        place = found.place({})
        place.tls()
        changed = config.with_context(name, replace(found, server=place.server))
    _save(path, changed)
    if place.is_open:
        click.echo(
            f"warning: {place.server} is not encrypted: others on the network can read your token; "
            "use https where you can",
            err=True,
        )
    click.echo(f"context {name!r} {'created' if known is None else 'changed'} in {path}")
    if changed.current != name or config.current != name:
        _tell_current(settings, changed, name)


@context.command(epilog=examples("quorate context current"))
@output_option
@click.pass_obj
def current(settings: Settings) -> None:
    """Show the service or file that commands use, and what chose it."""
    from quorate.cli.printing import print_tree

    target = settings.service()
    if not settings.is_table:
        tree: dict[str, Any] = {"context": "file", "ledger": settings.ledger}
        if target is not None:
            tree = {"context": target.name or None, "server": target.place.server}
        print_tree(settings, tree)
    elif target is None:
        click.echo(f"the ledger's file {settings.ledger}")
    elif target.name:
        token = ", with the token in QUORATE_TOKEN" if target.has_given_token else ""
        click.echo(f"{target.name}: {target.place.server} (by {target.why}{token})")
    else:
        click.echo(f"{target.place.server} (by {target.why})")


@context.command(epilog=examples("quorate context delete lab"))
@click.argument("name", shell_complete=context_names)
@click.pass_obj
def delete(settings: Settings, name: str) -> None:
    """Delete a context, and the token stored in it."""
    path, config = _load(settings)
    with _told():
        changed = config.without(name)
    _save(path, changed)
    click.echo(f"context {name!r} deleted")
    if config.current == name:
        click.echo("commands now use the ledger's file")


def _load(settings: Settings) -> tuple[Path | None, Config]:
    from quorate.client.contexts import config_path, is_private, load_config

    path = config_path(settings.environ)
    with _told():
        config = load_config(path)
    if path is not None and not is_private(path):
        click.echo(
            f"warning: others can read {path}, which may hold tokens; write: chmod 600 {path}",
            err=True,
        )
    return path, config


def _save(path: Path | None, config: Config) -> None:
    from quorate.client.contexts import save_config

    with _told():
        save_config(path, config)


def _told() -> AbstractContextManager[None]:
    """Return a context manager that turns errors of contexts into errors of the command."""
    from quorate.cli.service_errors import telling_why

    return telling_why()


def _typed_token(token: str) -> str:
    import sys

    if token != "-":  # noqa: S105 - a dash is no secret
        raise CommandError(
            Exit.USAGE,
            "--token: other users could see a token on the command line; write --token - and "
            "give the token on standard input, or use --token-file FILE",
        )
    from quorate.client.service_address import checked_token

    with _told():
        return checked_token(sys.stdin.readline())


def _absolute(path: str) -> str:
    from pathlib import Path

    return str(Path(path).expanduser().absolute())


def _overridden(settings: Settings) -> None:
    """Print a note if the environment chooses another service."""
    for name in ("QUORATE_SERVER", "QUORATE_CONTEXT", "QUORATE_LEDGER"):
        if settings.environ.get(name):
            click.echo(f"note: {name} is set and takes precedence", err=True)
            return


def _tell_current(settings: Settings, config: Config, name: str) -> None:
    """Print that commands now use the context ``name``, or what they use instead."""
    if config.current == name:
        click.echo(f"commands now use {config.contexts[name].server}")
        _overridden(settings)
        return
    still = "commands still use the ledger's file"
    if config.current is not None:
        server = config.contexts[config.current].server
        still = f"commands still use {server}, context {config.current!r}"
    click.echo(f"{still}; to use the new one: quorate context use {name}")


def _token_text(context: Context) -> str:
    if context.token_file is not None:
        return f"in {context.token_file}"
    return "kept" if context.token is not None else "-"


def _tree(name: str, context: Context, config: Config) -> dict[str, Any]:
    return {
        "name": name,
        "current": name == config.current,
        "server": context.server,
        "tokenFile": context.token_file,
        "hasToken": context.token is not None,
        "caFile": context.ca_file,
    }
