"""``quorate diff``: shows for each document what would change if it were applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quorate.cli.global_options import examples, ledger_options
from quorate.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MADE: Final = ("nonce", "user")
"""Fields of a run that the service sets if the document does not."""


@click.command(
    epilog=examples(
        "quorate diff -f fleet.yaml -f budgets.yaml",
        "quorate get budgets -o yaml | quorate diff -f -",
    )
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="YAML or JSON with one or more documents; - is standard input. May be repeated.",
)
@ledger_options
@click.pass_obj
def diff(settings: Settings, files: tuple[str, ...]) -> int:
    """Show the changes that applying files would make.

    Prints a diff for each document: lines with - are only in the current resource, lines with + are
    only in the file. A field that the file does not have is shown as removed, because `apply`
    replaces the whole resource. Nothing is recorded; for the effect on runs see `quorate apply
    --dry-run`. The exit code is 0 without differences, 1 with differences, and 2 or more after an
    error.
    """
    from quorate.views.exits import CommandError, Exit

    try:
        has_differed = _print_differences(settings, files)
    except CommandError as error:
        if error.code is not Exit.REFUSED:
            raise
        # Exit code 1 means a difference.
        raise CommandError(Exit.UNUSABLE, *error.lines, fault=error.fault) from None
    return Exit.REFUSED if has_differed else Exit.OK


def _print_differences(settings: Settings, files: tuple[str, ...]) -> bool:
    """Print the differences, and return whether there are any; raises ``CommandError``."""
    from quorate.cli.sources import read_sources

    sources = read_sources(files, needs_owner=settings.service() is None)
    there = _Resources(settings)
    has_differed = False
    for wanted in sources.trees:
        for line in difference(there.find(wanted), wanted):
            has_differed = True
            click.echo(line)
    return has_differed


class _Resources:
    """The current resources; each kind is requested once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, dict[str, Any]] = {}

    def find(self, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the current resource with the kind and name of ``wanted``, or None if missing."""
        from quorate.views.kind_names import kind_named

        name = wanted["metadata"].get("name")
        if name is None:
            return None  # A generated name is always new.
        kind = kind_named(str(wanted["kind"]).lower())
        if kind.name not in self._known:
            self._known[kind.name] = {
                each["metadata"]["name"]: each for each in self._asked(kind.name, kind.plural)
            }
        return self._known[kind.name].get(name)

    def _asked(self, kind: str, plural: str) -> Sequence[Any]:
        from quorate.cli.ask_and_print import tree_asked
        from quorate.operations.resources.resource_operations import (
            GetSystem,
            ListRuns,
            ListThings,
        )

        if kind == "system":
            return [tree_asked(self._settings, "get-system", GetSystem())]
        asked = ListRuns() if kind == "run" else ListThings()
        items: Sequence[Any] = tree_asked(self._settings, f"list-{plural}", asked)["items"]
        return items


def difference(there: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a unified diff from the resource ``there`` to ``wanted``.

    ``there`` is None if the resource is new.
    """
    from difflib import unified_diff

    from quorate.documents import to_yaml

    spec = wanted.get("spec", {})
    before: list[str] = []
    if there is not None:
        kept = {key: value for key, value in there.items() if key != "status"}
        kept["metadata"] = {key: there["metadata"].get(key) for key in wanted["metadata"]}
        if wanted["kind"] == "Run":
            made = [name for name in _MADE if name not in spec]
            kept["spec"] = {key: value for key, value in kept["spec"].items() if key not in made}
        before = to_yaml(kept).splitlines()
    name = f"{wanted['kind'].lower()}/{wanted['metadata'].get('name', '(generated)')}"
    yield from unified_diff(
        before,
        to_yaml(wanted).splitlines(),
        f"{name} at present" if there is not None else "/dev/null",
        f"{name} in the file",
        lineterm="",
    )
