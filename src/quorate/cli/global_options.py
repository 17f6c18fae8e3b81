"""Options that commands share; their values are kept in the settings.

An option after the subcommand takes precedence over the same option before the subcommand. Both
take precedence over the environment variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from quorate.cli.completing import context_names
from quorate.cli.settings import CSV, LEDGER_DEFAULT, LOCK_TIMEOUT_S, Settings
from quorate.views.exits import KEY_OPTION

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
else:
    _ParamType = click.ParamType  # Older versions of click have no type argument.

FORMATS: Final = ("table", "wide", "json", "yaml")
NAME: Final = "name"
"""The output format of ``get`` that prints KIND/NAME lines."""
JSON_PATH: Final = "jsonpath="
"""The prefix of the output format of ``get`` that prints fields."""

F = TypeVar("F", bound=Callable[..., Any])


def ledger_options(command: F) -> F:
    """Return ``command`` with ``--ledger``, ``--context`` and ``--server``."""
    command = _option(
        command,
        "--server",
        "server_option",
        metavar="URL",
        help="Use this service.  [env: QUORATE_SERVER, with QUORATE_TOKEN]",
    )
    command = _option(
        command,
        "--context",
        "context_option",
        metavar="NAME",
        help="Use the service of this context; `file` means the ledger's file.  "
        "[env: QUORATE_CONTEXT; default: the current context, see quorate context]",
        shell_complete=context_names,
    )
    return file_option(command)


def file_option(command: F) -> F:
    """Return ``command`` with ``--ledger``."""
    return _option(
        command,
        "--ledger",
        "ledger_option",
        metavar="PATH",
        help="The ledger: a path, sqlite:PATH or etcd://HOST:PORT/NAME.  [env: QUORATE_LEDGER; "
        f"default: ./{LEDGER_DEFAULT}]",
    )


def actor_option(command: F) -> F:
    """Return ``command`` with ``--actor``."""
    return _option(
        command,
        "--actor",
        "actor_option",
        metavar="NAME",
        help="The user to record.  [env: QUORATE_ACTOR; default: the login name]",
    )


def lock_option(command: F) -> F:
    """Return ``command`` with ``--lock-timeout``."""
    return _option(
        command,
        "--lock-timeout",
        "lock_timeout_option",
        metavar="SECONDS",
        help="How long to wait while another process writes.  "
        f"[env: QUORATE_LOCK_TIMEOUT; default: {LOCK_TIMEOUT_S:.0f}]",
    )


def key_option(command: F) -> F:
    """Return ``command`` with ``--idempotency-key``."""
    return _option(
        command,
        KEY_OPTION,
        "key_option",
        metavar="KEY",
        help="Carry the command out once, however often it is repeated with this key within a day.",
    )


def output_option(command: F) -> F:
    """Return ``command`` with ``-o``."""
    return _option(
        command,
        "-o",
        "--output",
        "output",
        type=click.Choice(FORMATS),
        help="The output format: a table, a wider one, or documents.  [default: table]",
    )


def csv_reader(command: F) -> F:
    """Return ``command`` with ``-o``, including ``csv``."""
    return _option(
        command,
        "-o",
        "--output",
        "output",
        type=click.Choice((*FORMATS, CSV)),
        help="The output format: a table, a wider one, documents, or csv.  [default: table]",
    )


class _GetForm(_ParamType):
    """The output formats of ``get``, including those for scripts."""

    name = "form"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the formats as ``--help`` shows them."""
        del param, ctx
        return f"[{'|'.join((*FORMATS, CSV, NAME))}|{JSON_PATH}TEMPLATE]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return ``value`` if it is one of the formats; raises ``BadParameter`` otherwise."""
        if value.startswith(JSON_PATH):
            from quorate.cli.json_path import TemplateError, read_template

            try:
                read_template(value.removeprefix(JSON_PATH))
            except TemplateError as error:
                self.fail(str(error), param, ctx)
        elif value not in (*FORMATS, CSV, NAME):
            known = ", ".join((*FORMATS, CSV, NAME, f"{JSON_PATH}TEMPLATE"))
            self.fail(f"{value!r} is not one of {known}", param, ctx)
        return value


def get_reader(command: F) -> F:
    """Return ``command`` with the options of a command that reads, and all formats of ``get``."""
    forms = _option(
        command,
        "-o",
        "--output",
        "output",
        type=_GetForm(),
        help="The output format: a table, a wider one, documents, csv, KIND/NAME lines, "
        "or fields.  [default: table]",
    )
    return ledger_options(forms)


def examples(*lines: str) -> str:
    """Return the epilog of a command's help: examples that never wrap, so that users can paste."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def reader(command: F) -> F:
    """Return ``command`` with the options of a command that reads the ledger."""
    return ledger_options(output_option(command))


def exact(command: F) -> F:
    """Return ``command`` with ``--exact``, which plans a run that is far back in the queue."""
    return click.option(
        "--exact",
        "is_exact",
        is_flag=True,
        help="If the run is further back in the queue than the pool plans, also plan all runs "
        "before it.",
    )(command)


def writer(command: F) -> F:
    """Return ``command`` with the options of a command that writes to the ledger."""
    dry_run = click.option(
        "--dry-run", is_flag=True, help="Show what would be recorded, without writing it."
    )
    return dry_run(ledger_options(actor_option(lock_option(key_option(output_option(command))))))


def _option(command: F, *names: str, **attributes: Any) -> F:
    """Return ``command`` with an option whose value is kept in the settings."""

    def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            assert param.name is not None, param
            kept: dict[str, Any] = {param.name: value}
            ctx.obj = ctx.ensure_object(Settings)._replace(**kept)

    return click.option(*names, expose_value=False, callback=keep, **attributes)(command)
