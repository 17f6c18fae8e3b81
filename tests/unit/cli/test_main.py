from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from quorate.cli.command_table import COMMANDS, SECTIONS
from quorate.cli.main import main, quorate


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command; a command with two names is shown by its shorter one."""
    yield path
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None, name
            if path != ("runs",) or below is not quorate.get_command(ctx, name):
                yield from _commands(below, (*path, name))


ALL = list(_commands(quorate, ()))


def test_the_lines_of_the_help_are_those_of_the_commands() -> None:
    ctx = click.Context(quorate)
    for name, (_, _, line) in COMMANDS.items():
        command = quorate.get_command(ctx, name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str(limit=200) == line


def test_the_help_shows_every_command_once_under_the_heading_of_its_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)
    main(["--help"])
    out = capsys.readouterr().out
    for heading, names in SECTIONS.items():
        section = out.partition(f"\n{heading}:\n")[2].partition("\n\n")[0]
        first = (line for line in section.splitlines() if not line.startswith("   "))
        assert tuple(line.split()[0] for line in first) == names
    columns = {
        line.index(COMMANDS[name][2])
        for name in COMMANDS
        for line in out.splitlines()
        if line.startswith(f"  {name} ") and COMMANDS[name][2] in line
    }
    assert len(columns) == 1, "the lines of all sections begin in one column"


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help"]) == 0
    out = capsys.readouterr().out
    assert " ".join(["Usage: quorate", *path]) in out
    assert " ".join(["  quorate", *path]) in out.partition("Options:")[2]


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_line_of_help_fits_a_screen(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*path, "--help"])
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 100


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("quorate 0.")


def test_the_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "5  the ledger does not verify" in capsys.readouterr().out
