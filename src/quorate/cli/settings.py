"""The settings of every command: ledger or service, output format, actor and clock."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from quorate.views.exits import KEY_OPTION, CommandError, Exit

if TYPE_CHECKING:
    from pathlib import Path

    from quorate.client.contexts import Target
    from quorate.ports.clock_port import Clock

LEDGER_DEFAULT: Final = "quorate.db"
CSV: Final = "csv"
"""The additional output format of commands whose response fits a spreadsheet."""
ACTOR_CHARS_MAX: Final = 256
KEY_CHARS_MAX: Final = 240
"""The maximal length of an idempotency key on the command line.

A service takes 255 characters, and a command with several requests adds a number to each key.
"""
LOCK_TIMEOUT_S: Final = 5.0
LOCK_TIMEOUT_S_MAX: Final = 86_400.0
ANSWER_TIMEOUT_S: Final = 120.0
"""The timeout of a response. It is long, because a read of a past state replays the ledger."""


class Settings(NamedTuple):
    """The settings of a command; an option that was not given is None.

    If ``clock`` is None, the system clock is used.
    """

    environ: Mapping[str, str] = os.environ
    clock: Clock | None = None
    ledger_option: str | None = None
    actor_option: str | None = None
    lock_timeout_option: str | None = None
    context_option: str | None = None
    server_option: str | None = None
    key_option: str | None = None
    output: str = "table"

    @property
    def ledger(self) -> str:
        """The ledger: a path, or the URL of its store."""
        if self.ledger_option is not None:
            return self.ledger_option
        return self.environ.get("QUORATE_LEDGER") or LEDGER_DEFAULT

    @property
    def ledger_path(self) -> Path:
        """The path that gives the files beside the ledger their names; raises ``StoreUrlError``."""
        from quorate.adapters.stores.store_urls import ledger_path

        return ledger_path(self.ledger)

    @property
    def prefix(self) -> tuple[str, ...]:
        """The options with which another command uses the same ledger."""
        return () if self.ledger_option is None else ("--ledger", self.ledger_option)

    def service(self) -> Target | None:
        """Return the chosen service, None for the ledger's file; raises ``CommandError``."""
        from quorate.cli.service_errors import command_error
        from quorate.client.contexts import chosen
        from quorate.client.errors import QuorateClientError

        typed = [
            name
            for name, value in (
                ("--ledger", self.ledger_option),
                ("--server", self.server_option),
                ("--context", self.context_option),
            )
            if value is not None
        ]
        if len(typed) > 1:
            raise CommandError(Exit.USAGE, f"give only one of {' and '.join(typed)}")
        if self.ledger_option is not None:
            return None
        try:
            return chosen(self.environ, server=self.server_option, context=self.context_option)
        except QuorateClientError as error:
            raise command_error(error) from None

    @property
    def wide(self) -> bool:
        """Whether tables show all columns."""
        return self.output == "wide"

    @property
    def is_table(self) -> bool:
        """Whether the output is a table, for people."""
        return self.output in ("table", "wide")

    def actor(self) -> str:
        """Return the actor: from the option, else from the environment, else the login name."""
        if self.actor_option is not None:
            return one_line(self.actor_option, "--actor", ACTOR_CHARS_MAX)
        return one_line(
            self.environ.get("QUORATE_ACTOR") or _login_name(), "QUORATE_ACTOR", ACTOR_CHARS_MAX
        )

    def idempotency_key(self) -> str | None:
        """Return the value of ``--idempotency-key``, None if not given; raises ``CommandError``."""
        if self.key_option is None:
            return None
        if not self.key_option.isascii():
            raise CommandError(Exit.USAGE, f"{KEY_OPTION}: must be ASCII, got {self.key_option!r}")
        return one_line(self.key_option, KEY_OPTION, KEY_CHARS_MAX)

    def lock_timeout_s(self) -> float:
        """Return the lock timeout: from the option, else from the environment, else 5 seconds."""
        if self.lock_timeout_option is not None:
            return _seconds(self.lock_timeout_option, "--lock-timeout")
        found = self.environ.get("QUORATE_LOCK_TIMEOUT")
        return LOCK_TIMEOUT_S if not found else _seconds(found, "QUORATE_LOCK_TIMEOUT")

    def answer_timeout_s(self) -> float:
        """Return the timeout of a response: from the environment, else two minutes."""
        found = self.environ.get("QUORATE_TIMEOUT")
        if not found:
            return ANSWER_TIMEOUT_S
        timeout_s = _seconds(found, "QUORATE_TIMEOUT")
        if timeout_s == 0:
            raise CommandError(Exit.USAGE, "QUORATE_TIMEOUT: must be more than 0 seconds")
        return timeout_s


def one_line(text: str, option: str, chars_max: int) -> str:
    """Return ``text`` if it is one printable line; raises ``CommandError`` otherwise."""
    if text and len(text) <= chars_max and text.isprintable():
        return text
    raise CommandError(
        Exit.USAGE, f"{option}: must be one printable line of 1 to {chars_max} characters"
    )


def _seconds(text: str, option: str) -> float:
    """Return ``text`` as a number of seconds; raises ``CommandError`` if ``text`` is not valid."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if 0 <= found <= LOCK_TIMEOUT_S_MAX:
        return found
    raise CommandError(
        Exit.USAGE,
        f"{option}: must be seconds from 0 to {LOCK_TIMEOUT_S_MAX:.0f}, got {text!r}; "
        "0 does not wait at all",
    )


def _login_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # The user id has no entry in the user database, as in many containers.
        return f"uid-{os.getuid()}"
