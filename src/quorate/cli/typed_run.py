"""A run made of options: checked like a document, with errors in the terms that were typed."""

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
"""What a variable is called whose value had better not be read by others."""


def domain_statuses(settings: Settings) -> list[dict[str, Any]]:
    """Return the fleet's domains, from the ledger or from the service."""
    listing = tree_asked(settings, "list-domains", ListThings())
    return [each["status"] for each in listing["items"]]


def flavors_or_only(settings: Settings, typed: Sequence[str]) -> list[str]:
    """Return the flavors that were typed, as the fleet spells them, or the only one that there is.

    ``h100`` is ``H100`` where no node has ``h100``, and standard error says so. Raises
    ``CommandError`` where that could be several flavors.
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
    """Return ``typed`` as one of the ``known`` flavors is spelled; as it is where none is alike."""
    if typed in known:
        return typed
    alike = [each for each in known if each.lower() == typed.lower()]
    if len(alike) > 1:
        raise CommandError(
            Exit.USAGE, f"--flavor {typed}: is it {' or '.join(alike)}? write it as nodes do"
        )
    if not alike:
        return typed
    click.echo(f"note: --flavor {typed}: taken as {alike[0]}, as nodes have it", err=True)
    return alike[0]


def team_or_own(settings: Settings, typed: str | None) -> str | None:
    """Return the owner that was typed, or the caller's tenant at the service.

    None where there is neither: a caller of a file has no tenant.
    """
    if typed is not None:
        return typed.removeprefix("owner/")
    if settings.service() is None:
        return None
    tenant = tree_asked(settings, "whoami", Nothing())["tenant"]
    return str(tenant) or None


def variables(typed: Sequence[str]) -> dict[str, str]:
    """Return the environment that ``NAME=VALUE`` words make; warns of what looks like a secret."""
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
    """Submit the document ``tree``; its faults are named by the ``options`` that they came by.

    A ledger's file is given sound documents only. A service finds faults by itself, so they are
    looked for here only when it has found some: reading documents takes longer than asking.
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
    """Raise ``CommandError`` with the faults of ``tree``, if any."""
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
