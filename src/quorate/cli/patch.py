"""``quorate patch``: change single fields of what was applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorate.answers.exits import CommandError, Exit
from quorate.cli.settings import Settings, examples, writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.core.commands import Applied
    from quorate.documents import Document
    from quorate.model.view import StateView


@click.command(
    epilog=examples(
        "quorate patch budget rai --set spec.envelopes[west].concurrency=96",
        "quorate patch owner vision --set spec.quota.maxNodes=40 --dry-run",
        "quorate patch system --set spec.halfLife=12h",
    )
)
@click.argument("kind")
@click.argument("name", required=False)
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
    """Change fields of what was applied.

    KIND is node, owner, budget, pool or system. PATH is as in the document; an element of a list
    is named in brackets by its name or position. VALUE is JSON where it is JSON, else text.
    """
    from quorate.answers.kinds import kind_named, split_target
    from quorate.cli.carry_out import carry_out
    from quorate.cli.session import writing
    from quorate.core.commands import Apply
    from quorate.documents import render

    kind, names = split_target(kind, () if name is None else (name,))
    found = kind_named(kind).name
    if not names and found != "system":
        raise click.UsageError(f"which {found}? write: quorate patch {found} NAME --set PATH=VALUE")
    if found == "system" and names not in ((), ("system",)):
        raise click.UsageError(
            f"there is one system and it has no name {names[0]!r}; "
            "write: quorate patch system --set PATH=VALUE"
        )
    target = "system" if found == "system" else names[0]
    with writing(settings, dry_run=dry_run) as engine:
        tree = render(_spec_of(engine.view, found, target))
        document = changed_document(tree, assignments, source="--set")
        if document.name != target:
            raise CommandError(Exit.INVALID, "--set metadata.name: a name cannot be changed")
        carry_out(settings, engine, Apply((document.spec,)), dry_run=dry_run)


def _spec_of(view: StateView, kind: str, name: str) -> Applied:
    """Return what was applied under ``name``."""
    found: Applied | None
    match kind:
        case "node":
            record = view.nodes.get(name)
            found = None if record is None else record.spec
        case "owner":
            found = view.owners.get(name)
        case "budget":
            found = view.budgets.get(name)
        case "pool":
            found = view.pools.get(name)
        case "system":
            found = view.system
        case "run":
            raise click.UsageError(
                "a run cannot be changed; submit a changed copy: "
                f"quorate submit --like {name} --name NEW --set PATH=VALUE"
            )
        case _:
            raise click.UsageError(
                f"a {kind} cannot be patched; patch a node, owner, budget, pool or the system"
            )
    if found is None:
        raise CommandError(
            Exit.REFUSED, f"there is no {kind} {name!r}; list them: quorate get {kind}s"
        )
    return found


def changed_document(tree: dict[str, Any], assignments: Sequence[str], *, source: str) -> Document:
    """Return the document that ``tree`` is after ``assignments``, or raise with its problems."""
    from quorate.answers.assign import assigned
    from quorate.documents import Invalid, parse_tree

    parsed = parse_tree(None, assigned(tree, assignments), source=source)
    if isinstance(parsed, Invalid):
        raise CommandError(Exit.INVALID, *(problem.text() for problem in parsed.problems))
    return parsed.items[0]
