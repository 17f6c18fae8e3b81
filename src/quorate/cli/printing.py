"""Trees on standard output, in the form that was asked for."""

from __future__ import annotations

import click

from quorate.cli.settings import Settings
from quorate.documents import to_json, to_yaml


def print_tree(settings: Settings, tree: object) -> None:
    """Print ``tree`` as JSON or YAML."""
    click.echo(to_json(tree) if settings.output == "json" else to_yaml(tree), nl=False)
