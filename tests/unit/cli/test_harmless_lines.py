"""A line of output may send colours to a terminal, but no other control codes."""

from __future__ import annotations

import pytest

from quorate.cli.commands.logs_command import harmless


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("loss 0.3\tstep 4", "loss 0.3\tstep 4"),
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x1b[2J\x1b[6n", "\\x1b[2J\\x1b[6n"),
        ("\x9b2J", "\\x9b2J"),
        (" 10%\r 20%\r100%", "100%"),
        ("from Windows\r", "from Windows"),
        ("über 5 µs", "über 5 µs"),
    ],
)
def test_a_terminal_gets_colours_and_no_other_controls(written: str, shown: str) -> None:
    assert harmless(written) == shown
