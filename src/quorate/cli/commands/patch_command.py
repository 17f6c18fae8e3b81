"""``quorate patch``: change single fields of a resource."""

from __future__ import annotations

from typing import Final

import click

from quorate.cli.completing import kinds, names_of_kind
from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings

_PATCHED: Final = ("node", "owner", "budget", "pool")


@click.command(
    epilog=examples(
        "quorate patch budget rai --set spec.envelopes[west].concurrency=96",
        "quorate patch owner vision --set spec.quota.maxNodes=40 --dry-run",
        "quorate patch system --set spec.halfLife=12h",
    )
)
@click.argument("kind", shell_complete=kinds)
@click.argument("name", required=False, shell_complete=names_of_kind)
@click.option(
    "--set",
    "assignments",
    metavar="PATH=VALUE",
    multiple=True,
    required=True,
    help="A field and its new value; null removes it. May be repeated.",
)
@writer
@click.pass_obj
def patch(
    settings: Settings,
    *,
    kind: str,
    name: str | None,
    assignments: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change fields of a resource.

    KIND is node, owner, budget, pool or system. PATH is the path of the field in the document; an
    element of a list is given in brackets, by its name or position. VALUE is read as JSON if it is
    valid JSON, otherwise as a string.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.resource_operations import PatchDocument, PatchSystem
    from quorate.views.kind_names import kind_named, split_target

    kind, names = split_target(kind, () if name is None else (name,))
    found = kind_named(kind).name
    if not names and found != "system":
        raise click.UsageError(f"which {found}? write: quorate patch {found} NAME --set PATH=VALUE")
    if found == "system" and names not in ((), ("system",)):
        raise click.UsageError(
            f"the system has no name, got {names[0]!r}; "
            "write: quorate patch system --set PATH=VALUE"
        )
    if found == "system":
        ask(settings, "patch-system", PatchSystem(assignments=assignments, dry_run=dry_run))
        return
    if found == "run":
        raise click.UsageError(
            "a run cannot be changed; submit a changed copy: "
            f"quorate submit --like {names[0]} --name NEW --set PATH=VALUE"
        )
    if found not in _PATCHED:
        raise click.UsageError(
            f"a {found} cannot be patched; patch a node, owner, budget, pool or the system"
        )
    asked = PatchDocument(name=names[0], assignments=assignments, dry_run=dry_run)
    ask(settings, f"patch-{found}", asked)
