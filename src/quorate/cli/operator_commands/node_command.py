"""``quorate node``: records the status of nodes, and what this changes for the runs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, writer
from quorate.cli.operator_commands.discover_command import discover
from quorate.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def _marking(command: F) -> F:
    """Return ``command`` with the argument and options of a command that marks a node."""
    note = click.option(
        "--note", metavar="TEXT", default="", help="The reason; kept in the ledger."
    )
    return click.argument("name", shell_complete=names_of("node"))(note(writer(command)))


class NodeGroup(click.Group):
    """The group ``node``; for ``node delete`` it raises an error that names the right command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that ``args`` begin with."""
        if args[0] in ("delete", "remove", "rm"):
            ctx.fail(f"there is no command 'node {args[0]}'; write: quorate delete node NAME")
        return super().resolve_command(ctx, args)


@click.group(
    cls=NodeGroup,
    epilog=examples(
        'quorate node fail a1 --note "power supply"',
        "quorate node drain a1 --dry-run     # which runs would have to move?",
        "quorate get nodes                   # their status",
    ),
)
def node() -> None:
    """Mark a node as failed, ready, cordoned or drained; or describe this machine.

    A node is Ready, Cordoned (its work continues, but no new work is placed on it) or Failed (its
    work is lost). After a claim, a node takes no other work until it is wiped. Every change is
    recorded with its actor.
    """


@node.command(
    epilog=examples(
        "quorate node fail a1",
        'quorate node fail a1 --note "power supply"',
        "quorate node fail a1 --dry-run     # which runs would be affected?",
    )
)
@_marking
@click.pass_obj
def fail(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Record that a node has failed with all work on it.

    Spares in the group's domain replace the lost GPUs, so that the run keeps its full width. If
    there are too few spares, a malleable run continues with fewer GPUs, if its minimum is complete.
    Any other run returns to its place in the queue, and restarts from its last checkpoint.
    """
    _mark(settings, "fail-node", name, note, dry_run=dry_run)


@node.command(epilog=examples("quorate node recover a1", 'quorate node recover a1 --note "fixed"'))
@_marking
@click.pass_obj
def recover(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Record that a failed node works again.

    The scheduler places work on the node at once. To keep work off the repaired node, cordon it
    instead: a failed node that is cordoned counts as repaired.
    """
    _mark(settings, "recover-node", name, note, dry_run=dry_run)


@node.command(
    epilog=examples("quorate node cordon a1", 'quorate node cordon a1 --note "odd noises"')
)
@_marking
@click.pass_obj
def cordon(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Cordon a node: its work continues, and no new work is placed on it."""
    _mark(settings, "cordon-node", name, note, dry_run=dry_run)


@node.command(epilog=examples("quorate node uncordon a1"))
@_marking
@click.pass_obj
def uncordon(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Make a cordoned node available for work again."""
    _mark(settings, "uncordon-node", name, note, dry_run=dry_run)


@node.command(
    epilog=examples(
        'quorate node drain a1 --note "new firmware"',
        "quorate node drain a1 --dry-run     # which runs would have to move?",
    )
)
@_marking
@click.pass_obj
def drain(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Cordon a node and stop the work on it.

    The work has its grace period to checkpoint. A malleable run continues without its steps on that
    node; any other run returns to its place in the queue, and starts elsewhere as soon as possible.
    A claim keeps the node until the claim ends.
    """
    _mark(settings, "drain-node", name, note, dry_run=dry_run)


@node.command(
    epilog=examples(
        "quorate node wiped a1",
        "quorate node wiped a1 --after scans     # for scripts",
        'quorate node wiped a1 --failed --note "disk 2 does not answer"',
        "quorate get nodes     # Claimed, Wiping or Quarantined",
    )
)
@click.option("--failed", is_flag=True, help="The node could not be wiped: quarantine it.")
@click.option(
    "--after",
    metavar="CLAIM",
    help="Record the wipe only if CLAIM was the node's last claim: a late report has no effect.",
)
@_marking
@click.pass_obj
def wiped(
    settings: Settings, *, name: str, failed: bool, after: str | None, note: str, dry_run: bool
) -> None:
    """Record that a node was wiped after a claim.

    After a claim, a node takes no other work until it is wiped. A node that could not be wiped is
    quarantined until an operator records, with this command, that it is clean.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.cli.commands.finish_command import checked_note
    from quorate.operations.fleet.fleet_operations import NodeWiped

    asked = NodeWiped(
        node=_node_name(name),
        failed=failed,
        after=None if after is None else after.removeprefix("claim/"),
        note=checked_note(note),
        dry_run=dry_run,
    )
    ask(settings, "mark-node-wiped", asked)


node.add_command(discover)


def _node_name(name: str) -> str:
    """Return the node's name; also accepts ``node/NAME``, which other commands print."""
    return name.removeprefix("node/")


def _mark(settings: Settings, operation: str, name: str, note: str, *, dry_run: bool) -> None:
    """Request an operation that sets the status of a node."""
    from quorate.cli.ask_and_print import ask
    from quorate.cli.commands.finish_command import checked_note
    from quorate.operations.fleet.fleet_operations import MarkNode

    asked = MarkNode(node=_node_name(name), note=checked_note(note), dry_run=dry_run)
    ask(settings, operation, asked)
