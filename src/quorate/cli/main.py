"""The ``quorate`` command: its subcommands, and how every one of them ends.

Only click is imported here; a subcommand's module is imported when it runs.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import click

from quorate.cli.global_options import actor_option, ledger_options, output_option
from quorate.cli.settings import Settings
from quorate.version import __version__
from quorate.views.exits import CommandError, Exit

COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "demo": (
        "quorate.cli.operator_commands.demo_command",
        "demo",
        "Show five scenes of the life of a fleet, with real processes.",
    ),
    "init": (
        "quorate.cli.operator_commands.init_command",
        "init",
        "Create a ledger, its signing key and its lottery's secret.",
    ),
    "serve": (
        "quorate.cli.operator_commands.serve_command",
        "serve",
        "Serve a ledger to others, by REST and gRPC.",
    ),
    "apply": (
        "quorate.cli.commands.apply_command",
        "apply",
        "Create or update resources from files.",
    ),
    "diff": (
        "quorate.cli.commands.diff_command",
        "diff",
        "Show what applying files would change.",
    ),
    "import": (
        "quorate.cli.operator_commands.import_command",
        "import_group",
        "Turn what another scheduler has into documents of Quorate.",
    ),
    "submit": (
        "quorate.cli.commands.submit_command",
        "submit",
        "Submit runs, and start them if possible.",
    ),
    "sbatch": (
        "quorate.cli.commands.sbatch_command",
        "sbatch",
        "Submit a job that was written for Slurm.",
    ),
    "squeue": (
        "quorate.cli.commands.squeue_command",
        "squeue",
        "List jobs that wait or run, as Slurm's squeue does.",
    ),
    "scancel": (
        "quorate.cli.commands.squeue_command",
        "scancel",
        "Cancel jobs, as Slurm's scancel does.",
    ),
    "sacct": (
        "quorate.cli.commands.sacct_command",
        "sacct",
        "List jobs of the past and of now, as Slurm's sacct does.",
    ),
    "sinfo": (
        "quorate.cli.commands.sacct_command",
        "sinfo",
        "List pools and their nodes, as Slurm's sinfo does.",
    ),
    "patch": ("quorate.cli.commands.patch_command", "patch", "Change fields of what was applied."),
    "delete": (
        "quorate.cli.commands.delete_command",
        "delete",
        "Remove nodes, pools, budgets and owners that nothing depends on.",
    ),
    "get": ("quorate.cli.commands.get_command", "get", "List what there is."),
    "queue": (
        "quorate.cli.commands.queue_command",
        "queue",
        "Show which runs wait, in order, and why.",
    ),
    "top": (
        "quorate.cli.commands.top_command",
        "top",
        "Show the fleet, and who has how much of it.",
    ),
    "describe": (
        "quorate.cli.commands.describe_command",
        "describe",
        "Show everything about one thing.",
    ),
    "plan": (
        "quorate.cli.commands.plan_command",
        "plan",
        "Say when a run starts, and what that rests on.",
    ),
    "explain": (
        "quorate.cli.commands.explain_command",
        "explain",
        "Say why a run waits and what would start it.",
    ),
    "watch": (
        "quorate.cli.commands.watch_command",
        "watch",
        "Follow a run, the reservations or a pool.",
    ),
    "notices": (
        "quorate.cli.commands.notices_command",
        "notices",
        "Show the notices that concern you, and follow them.",
    ),
    "logs": (
        "quorate.cli.commands.logs_command",
        "logs",
        "Show what the work of a run has written.",
    ),
    "complete": (
        "quorate.cli.commands.finish_command",
        "complete",
        "Record that the work of runs is done.",
    ),
    "fail": (
        "quorate.cli.commands.finish_command",
        "fail",
        "Record that the work of runs has ended badly.",
    ),
    "cancel": (
        "quorate.cli.commands.finish_command",
        "cancel",
        "Stop runs, or withdraw them from the queue.",
    ),
    "shrink": (
        "quorate.cli.commands.shrink_command",
        "shrink",
        "Shrink a malleable run to fewer GPUs.",
    ),
    "node": (
        "quorate.cli.operator_commands.node_command",
        "node",
        "Mark a node as failed, ready, cordoned or drained; or describe this machine.",
    ),
    "claim": (
        "quorate.cli.commands.claim_command",
        "claim",
        "Take whole nodes for one user and sensitive work, until a stated end.",
    ),
    "release": (
        "quorate.cli.commands.claim_command",
        "release",
        "Give the nodes of a claim back before its end.",
    ),
    "resolve": (
        "quorate.cli.commands.resolve_command",
        "resolve",
        "Free GPUs in a scope by hand, after the notice period.",
    ),
    "admin": (
        "quorate.cli.operator_commands.admin_command",
        "admin",
        "Create, change and remove tenants.",
    ),
    "token": (
        "quorate.cli.operator_commands.token_command",
        "token",
        "Issue, list and revoke access tokens.",
    ),
    "whoami": (
        "quorate.cli.operator_commands.token_command",
        "whoami",
        "Say who you are to the service, or to the file.",
    ),
    "waldur": (
        "quorate.cli.operator_commands.waldur_command",
        "waldur",
        "Show the status of the link to Waldur.",
    ),
    "tick": ("quorate.cli.commands.finish_command", "tick", "Do what time has made due."),
    "lottery": (
        "quorate.cli.operator_commands.lottery_command",
        "lottery",
        "Show the lottery, and draw it all again.",
    ),
    "ledger": (
        "quorate.cli.operator_commands.ledger_command",
        "ledger",
        "Read, verify, sign, back up, restore, export and import the ledger.",
    ),
    "usage": ("quorate.cli.commands.usage_command", "usage", "Show GPU-hours and node-hours used."),
    "statement": (
        "quorate.cli.commands.statement_command",
        "statement",
        "State what each envelope granted, spent, holds and lent.",
    ),
    "calc": (
        "quorate.cli.operator_commands.calc_command",
        "calc",
        "Compute one decision on a world given as JSON.",
    ),
    "report": (
        "quorate.cli.operator_commands.report_command",
        "report",
        "Show what a ledger came to: times, waits by cause, utilisation, shares, lost work.",
    ),
    "whatif": (
        "quorate.cli.operator_commands.whatif_command",
        "whatif",
        "Say what would have come out otherwise after a change.",
    ),
    "forecast": (
        "quorate.cli.operator_commands.forecast_command",
        "forecast",
        "Score forecasts of starts against what happened.",
    ),
    "policy": (
        "quorate.cli.operator_commands.policy_command",
        "policy",
        "Share GPUs of several flavors among jobs, by any policy.",
    ),
    "throughputs": (
        "quorate.cli.operator_commands.throughputs_command",
        "throughputs",
        "Look at tables of how fast jobs are on each flavor.",
    ),
    "simulate": (
        "quorate.cli.operator_commands.simulate_command",
        "simulate",
        "Play a trace in simulated time, and print what became of its jobs.",
    ),
    "trace": (
        "quorate.cli.operator_commands.trace_command",
        "trace",
        "Inspect, convert and generate traces of jobs.",
    ),
    "context": (
        "quorate.cli.operator_commands.context_command",
        "context",
        "Choose which service commands ask.",
    ),
    "completion": (
        "quorate.cli.operator_commands.completion_command",
        "completion",
        "Print a script that completes words.",
    ),
}
"""Name -> module, attribute and the line that ``--help`` shows."""

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
  1  refused: the request conflicts with what is there, or names what is not
  2  the command line is wrong
  3  a document or another input is invalid
  4  the ledger, a service or another file cannot be used
  5  the ledger does not verify
  6  it was recorded, and the output could not be written
"""


_DELETING: Final = ("remove", "rm", "destroy")
"""Words that people try for ``delete``."""


class LazyGroup(click.Group):
    """A group that imports a command when it is run, and none of them for ``--help``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order people need them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command called ``cmd_name``, or None."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, click.Command), cmd_name
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that ``args`` begin with; an error suggests the nearest name."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "list them: quorate --help"
            if args[0] in _DELETING:
                hint = "write: quorate delete KIND NAME"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their lines, importing none."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"max_content_width": 100})
@click.version_option(__version__, message="quorate %(version)s")
@ledger_options
@output_option
@actor_option
@click.pass_context
def quorate(ctx: click.Context) -> None:
    """Schedule GPU fleets by budget: paid before placed, explained, and auditable."""
    if ctx.obj.environ.get("NO_COLOR"):
        ctx.color = False


def main(args: Sequence[str], settings: Settings | None = None) -> int:
    """Return the exit code of ``quorate`` with ``args``; every error of a user has one."""
    try:
        result: Any = quorate.main(
            list(args),
            prog_name="quorate",
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
        return _fail(Exit.INTERRUPTED, ("interrupted; nothing that was not reported was recorded",))
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
    """Write what is wrong with the command line, or the help of a group without a command."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return Exit.USAGE
    return _fail(Exit.USAGE, (_usage(error),))


def _usage(error: click.ClickException) -> str:
    """Return what is wrong with the command line, on one line, and where to read about it."""
    text = " ".join(error.format_message().split()).rstrip(".")
    ctx = getattr(error, "ctx", None)
    path = "quorate" if ctx is None else ctx.command_path
    has_remedy = text.endswith("?") or "quorate " in text
    return text if has_remedy else f"{text}; see: {path} --help"


def _stopped(error: SystemExit | BrokenPipeError) -> Exit:
    """Return the exit code when click has ended the program, or flushing its output failed."""
    if isinstance(error, SystemExit) and not error.code:
        return Exit.OK  # a shell asked for completions, and got them
    # The reader of the output has closed it.
    _drop_output()
    return Exit.BROKEN_PIPE


def _drop_output() -> None:
    """Release standard output: Python must not try to write the rest of it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(code: Exit, lines: Sequence[str]) -> Exit:
    """Write ``lines`` as errors and return ``code``."""
    for line in lines:
        click.echo(click.style("error: ", fg="red") + line, err=True, color=_color())
    return code


def _color() -> bool | None:
    return False if os.environ.get("NO_COLOR") else None


def run() -> None:
    """Run ``quorate`` as a program."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its number instead of a traceback.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    _leave(int(main(sys.argv[1:])))


def _leave(code: int) -> NoReturn:
    """End the program, and do not take its modules apart, which takes a sixth of a short command.

    What was registered for the end is done, and what was printed is written. While another thread
    runs, the program ends as any other does.
    """
    threading = sys.modules.get("threading")
    if threading is None or threading.active_count() == 1:
        atexit._run_exitfuncs()  # noqa: SLF001 - what Python itself does at the end
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
