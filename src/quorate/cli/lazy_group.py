"""A group whose commands are imported when they run."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Final

import click

from quorate.cli.command_table import CommandTable, Sections

_ELSEWHERE: Final = {
    **dict.fromkeys(("remove", "rm", "destroy"), "quorate delete KIND NAME"),
    **dict.fromkeys(("srun", "salloc", "run"), "quorate submit --gpus N -- COMMAND"),
    **dict.fromkeys(("ps", "ls", "list"), "quorate get runs"),
    **dict.fromkeys(("sshare", "sreport"), "quorate usage --tenant OWNER"),
    "scontrol": "quorate describe run NAME, or quorate node --help",
    "sacctmgr": "quorate admin tenant --help",
    "create": "quorate apply -f FILE",
    "edit": "quorate patch KIND NAME",
    "status": "quorate top, or quorate describe run NAME",
    "kill": "quorate cancel RUN --now",
}
"""Maps a command of another tool to the command of Quorate that does the same."""


class LazyGroup(click.Group):
    """A group that imports a command of ``table`` only when the command runs, not for ``--help``.

    The help lists commands under the headings of ``sections``, or all under one heading.
    """

    def __init__(
        self, *args: Any, table: CommandTable, sections: Sections | None = None, **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self._table = table
        self._sections = sections or {"Commands": tuple(table)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        del ctx
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command ``cmd_name``; None if there is no such command."""
        del ctx
        if cmd_name not in self._table:
            return None
        module, attribute, _ = self._table[cmd_name]
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, click.Command), cmd_name
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that ``args`` begin with; an error suggests the nearest name."""
        if args[0] not in self._table and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self._table, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"list them: {ctx.command_path} --help"
            if args[0] in _ELSEWHERE:
                hint = f"write: {_ELSEWHERE[args[0]]}"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their help lines, without importing them."""
        del ctx
        width = max(map(len, self._table))
        for heading, names in self._sections.items():
            with formatter.section(heading):
                # Names are padded, so that the help lines of all sections begin in the same column.
                formatter.write_dl([(name.ljust(width), self._table[name][2]) for name in names])


def help_all(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Yield the help of ``command`` and of all its subcommands; imports all of them."""
    yield command.get_help(ctx)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None, name
            if not below.hidden:
                yield from help_all(below, click.Context(below, parent=ctx, info_name=name))
