"""``quorate completion``: tab completion for shells."""

from __future__ import annotations

from typing import Final

import click

from quorate.cli.global_options import examples

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_QUORATE_COMPLETE"


@click.command(
    epilog=examples(
        'eval "$(quorate completion bash)"          # in ~/.bashrc',
        "quorate completion zsh > _quorate          # in a folder of $fpath",
        "quorate completion fish > quorate.fish     # in ~/.config/fish/completions",
    )
)
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for tab completion.

    SHELL is bash (4.4 or newer), zsh or fish. At each Tab the shell calls `quorate`, which
    completes commands and options, so that a new version needs no new script.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, shell
    click.echo(found(ctx.find_root().command, {}, "quorate", VARIABLE).source())
