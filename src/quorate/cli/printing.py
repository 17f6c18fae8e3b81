"""Trees on standard output, in the form that was asked for; and what to say when it is full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit


def print_tree(settings: Settings, tree: object) -> None:
    """Print ``tree`` as JSON or YAML."""
    from quorate.documents import to_json, to_yaml

    click.echo(to_json(tree) if settings.output == "json" else to_yaml(tree), nl=False)


@contextmanager
def telling(done: str) -> Iterator[None]:
    """Print the result of ``done``, which cannot be undone; on failure, print it on stderr."""
    try:
        yield
    except BrokenPipeError:
        raise CommandError(Exit.BROKEN_PIPE, f"the output was not read; {done}") from None
    except KeyboardInterrupt:
        raise CommandError(Exit.INTERRUPTED, f"interrupted while printing; {done}") from None
    except OSError as error:
        raise CommandError(
            Exit.UNTOLD, f"the output could not be written: {error.strerror}; {done}"
        ) from None
