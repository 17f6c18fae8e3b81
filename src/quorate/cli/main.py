"""The ``quorate`` command: its subcommands, and the exit code of each.

Only click is imported here; the module of a subcommand is imported when the subcommand runs.
``command_table`` lists the subcommands.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import click

from quorate.cli.command_table import COMMANDS, SECTIONS
from quorate.cli.global_options import actor_option, ledger_options, output_option
from quorate.cli.lazy_group import LazyGroup
from quorate.cli.settings import Settings
from quorate.version import __version__
from quorate.views.exits import CommandError, Exit

ERRORS_SHOWN_MAX: Final = 20
"""How many errors are printed; further errors are only counted."""
EPILOG: Final = """\b
Start here:
  quorate demo
  quorate init
  quorate apply -f fleet.yaml -f budgets.yaml
  quorate submit --name train-1 --gpus 8 --team rai --flavor H100 -- python train.py
  quorate plan train-1
  quorate explain train-1

\b
Exit codes:
  0  done
  1  refused: the request conflicts with the current state, or names an unknown resource
  2  the command line is wrong
  3  a document or another input is invalid
  4  the ledger, a service or another file cannot be used
  5  the ledger does not verify
  6  the change was recorded, but the output could not be written
  7  the change may have been recorded: repeat it with the printed --idempotency-key
"""


def _print_help_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the help of all commands, and exit."""
    if wanted and not ctx.resilient_parsing:
        from quorate.cli.lazy_group import help_all

        click.echo("\n\n\n".join(help_all(ctx.command, ctx)))
        ctx.exit()


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    sections=SECTIONS,
    epilog=EPILOG,
    context_settings={"max_content_width": 100},
)
@click.version_option(__version__, message="quorate %(version)s")
@click.option(
    "--help-all",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_help_all,
    help="Show the help of every command, and exit.",
)
@ledger_options
@output_option
@actor_option
@click.pass_context
def quorate(ctx: click.Context) -> None:
    """Schedule GPU fleets by budget: every GPU has a payer, every decision an explanation."""
    if ctx.obj.environ.get("NO_COLOR"):
        ctx.color = False


def main(
    args: Sequence[str],
    settings: Settings | None = None,
    *,
    program: click.Command = quorate,
    called: str = "quorate",
) -> int:
    """Run ``program`` with ``args``, and return its exit code; each kind of error has its own code.

    ``called`` is the command that the user types.
    """
    try:
        result: Any = program.main(
            list(args),
            prog_name=called,
            standalone_mode=False,
            obj=Settings() if settings is None else settings,
        )
        sys.stdout.flush()
    except click.ClickException as error:
        return _misused(error)
    except CommandError as error:
        if error.code in (Exit.BROKEN_PIPE, Exit.UNTOLD):
            _drop_output()
        _fail(error.code, error.lines)
        for note in getattr(error, "__notes__", ()):
            click.echo(note, err=True)
        return error.code
    except (click.Abort, KeyboardInterrupt):
        told = "interrupted; only changes that were printed as recorded are in the ledger"
        return _fail(Exit.INTERRUPTED, (told,))
    except (SystemExit, BrokenPipeError) as error:
        return _stopped(error)
    except Exception as error:
        from quorate.views.error_codes import exit_of
        from quorate.views.failures import text_of

        code = exit_of(error)
        if code is None:
            raise
        return _fail(code, (text_of(error),))
    return result if isinstance(result, int) else Exit.OK


def _misused(error: click.ClickException) -> Exit:
    """Print the fault of the command line, or the help of a group without a command."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return Exit.USAGE
    from quorate.cli.usage_errors import usage_error

    return _fail(Exit.USAGE, (usage_error(error),))


def _stopped(error: SystemExit | BrokenPipeError) -> Exit:
    """Return the exit code after click ended the program, or its output could not be flushed."""
    if isinstance(error, SystemExit) and not error.code:
        return Exit.OK  # The shell has received its completions.
    # The reader of the output has closed it.
    _drop_output()
    return Exit.BROKEN_PIPE


def _drop_output() -> None:
    """Drop standard output, so that Python does not try to write the rest of it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(code: Exit, lines: Sequence[str]) -> Exit:
    """Print at most ``ERRORS_SHOWN_MAX`` lines as errors, count the others, and return ``code``.

    If standard error is a closed pipe, only the exit code reports the error.
    """
    shown = [*lines[:ERRORS_SHOWN_MAX]]
    if len(lines) > ERRORS_SHOWN_MAX:
        shown.append(
            f"{len(lines) - ERRORS_SHOWN_MAX} more errors are not shown; correct these first"
        )
    with suppress(BrokenPipeError):
        for line in shown:
            click.echo(click.style("error: ", fg="red") + line, err=True, color=_color())
    return code


def _color() -> bool | None:
    return False if os.environ.get("NO_COLOR") else None


def run() -> None:
    """Run ``quorate`` as a program."""
    run_program(quorate, "quorate")


def run_program(program: click.Command, called: str) -> None:
    """Run ``program`` with the arguments of the command line, and exit with its exit code."""
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets an escape instead of a traceback.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    _leave(int(main(sys.argv[1:], program=program, called=called)))


def _open_closed() -> None:
    """Replace missing output streams, as after ``>&-``, by streams that discard everything."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
            setattr(sys, name, open(descriptor, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


def _leave(code: int) -> NoReturn:
    """Exit without freeing modules: to free them would take a sixth of a short command's time.

    Exit handlers run, and the output is flushed. If another thread is still running, the program
    exits in the usual way.
    """
    threading = sys.modules.get("threading")
    if threading is None or threading.active_count() == 1:
        atexit._run_exitfuncs()  # noqa: SLF001 - what Python itself does at the end
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
