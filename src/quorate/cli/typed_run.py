"""Makes a run from options, and checks it like a document, with errors that name the options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from quorate.cli.ask_and_print import tree_asked
from quorate.cli.settings import Settings
from quorate.client.run_document import NoFlavorError, only_flavor
from quorate.operations.common_requests import Nothing
from quorate.operations.resources.resource_operations import ListThings
from quorate.views.exits import CommandError, Exit

_SECRET: Final = re.compile(r"(TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL)S?$", re.IGNORECASE)
"""Names of variables whose values are probably secrets."""


def domain_statuses(settings: Settings) -> list[dict[str, Any]]:
    """Return the domains of the fleet, from the ledger or from the service."""
    listing = tree_asked(settings, "list-domains", ListThings())
    return [each["status"] for each in listing["items"]]


def flavors_or_only(settings: Settings, typed: Sequence[str]) -> list[str]:
    """Return the typed flavors in the fleet's spelling, or the only flavor of the fleet.

    ``h100`` becomes ``H100`` if no node has ``h100``, with a note on standard error. Raises
    ``CommandError`` if several flavors match.
    """
    found = [name for each in typed for name in each.split(",") if name]
    statuses = domain_statuses(settings)
    if not found:
        try:
            return [only_flavor(statuses)]
        except NoFlavorError as error:
            raise CommandError(Exit.USAGE, f"--flavor: {error}") from None
    known = sorted({str(each["flavor"]) for each in statuses})
    return list(dict.fromkeys(_spelled(each, known) for each in found))


def _spelled(typed: str, known: Sequence[str]) -> str:
    """Return the flavor in ``known`` that equals ``typed``, ignoring case, else ``typed``."""
    if typed in known:
        return typed
    alike = [each for each in known if each.lower() == typed.lower()]
    if len(alike) > 1:
        raise CommandError(
            Exit.USAGE, f"--flavor {typed}: write {' or '.join(alike)}, as on the nodes"
        )
    if not alike:
        return typed
    click.echo(f"note: --flavor {typed}: read as {alike[0]}, the spelling of the nodes", err=True)
    return alike[0]


def team_or_own(settings: Settings, typed: str | None) -> str | None:
    """Return the typed owner, or the caller's tenant at the service.

    If no owner is typed, the result is None for a ledger's file, and for a caller without a tenant.
    """
    if typed is not None:
        return typed.removeprefix("owner/")
    if settings.service() is None:
        return None
    tenant = tree_asked(settings, "whoami", Nothing())["tenant"]
    return str(tenant) or None


def variables(typed: Sequence[str]) -> dict[str, str]:
    """Return the environment of the ``NAME=VALUE`` words; warns about probable secrets."""
    found: dict[str, str] = {}
    for each in typed:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise CommandError(
                Exit.USAGE, f"--env {each!r}: write NAME=VALUE; an empty value is NAME="
            )
        if name in found:
            raise CommandError(Exit.USAGE, f"--env {name}: is given twice; keep one of them")
        found[name] = value
        if value and _SECRET.search(name):
            click.echo(
                f"warning: --env {name}: its value is recorded for ever, and your tenant can read "
                f"it; if it is a secret, name a file instead: --env {name}_FILE=PATH",
                err=True,
            )
    return found


@contextmanager
def worded(
    settings: Settings, tree: Mapping[str, Any], options: Mapping[str, str]
) -> Iterator[None]:
    """Run the block, which submits the document ``tree``; errors name the faulty ``options``.

    For a ledger's file, the document is checked before the block. A service checks documents
    itself, and importing the parser takes longer than a request. So a document for a service is
    checked here only after the service has refused it.
    """
    if settings.service() is None:
        check_document(tree, options)
    try:
        yield
    except CommandError as error:
        if error.code in (Exit.INVALID, Exit.USAGE):
            check_document(tree, options)
        raise


def check_document(tree: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Raise ``CommandError`` with the faults of ``tree``, if there are any."""
    from quorate.documents import Invalid, parse_tree

    parsed = parse_tree(None, tree, source="the command line")
    if isinstance(parsed, Invalid):
        lines = [
            f"{_option(each.path, options)}: {each.message}; {each.remedy}"
            for each in parsed.problems
        ]
        raise CommandError(Exit.USAGE, *lines)


def _option(path: str, options: Mapping[str, str]) -> str:
    known = [
        field for field in options if path == field or path.startswith((f"{field}[", f"{field}."))
    ]
    return options[max(known, key=len)] if known else path
