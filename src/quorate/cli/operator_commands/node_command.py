"""``quorate node``: what people and monitors know about machines, and what follows for the runs."""

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
    """Return ``command`` with the argument and options of one that marks a node."""
    note = click.option("--note", metavar="TEXT", default="", help="Why; kept in the ledger.")
    return click.argument("name", shell_complete=names_of("node"))(note(writer(command)))


class NodeGroup(click.Group):
    """The group ``node``, which says how a node is deleted to those who look for that here."""

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
        "quorate node drain a1 --dry-run     # who would have to move?",
        "quorate get nodes                   # their status",
    ),
)
def node() -> None:
    """Mark a node as failed, ready, cordoned or drained; or describe this machine.

    A node is Ready, Cordoned (its work continues, nothing new is placed) or Failed (its work is
    lost). After a claim a node takes no other work before it was wiped. Every change is recorded
    with its actor.
    """


@node.command(
    epilog=examples(
        "quorate node fail a1",
        'quorate node fail a1 --note "power supply"',
        "quorate node fail a1 --dry-run     # what if it did?",
    )
)
@_marking
@click.pass_obj
def fail(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Record that a node is lost with all that ran on it.

    Spares in the group's domain take over at full width. Without enough of them a malleable run
    goes on narrower, as long as its minimum is whole; any other run waits again, in its old place,
    and starts from its last checkpoint when it can.
    """
    _mark(settings, "fail-node", name, note, dry_run=dry_run)


@node.command(epilog=examples("quorate node recover a1", 'quorate node recover a1 --note "fixed"'))
@_marking
@click.pass_obj
def recover(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Record that a failed node works again.

    It is given work at once. To have it back without work, cordon it instead: a failed node that
    is cordoned counts as repaired.
    """
    _mark(settings, "recover-node", name, note, dry_run=dry_run)


@node.command(
    epilog=examples("quorate node cordon a1", 'quorate node cordon a1 --note "odd noises"')
)
@_marking
@click.pass_obj
def cordon(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Cordon a node: its work continues, and nothing new is placed on it."""
    _mark(settings, "cordon-node", name, note, dry_run=dry_run)


@node.command(epilog=examples("quorate node uncordon a1"))
@_marking
@click.pass_obj
def uncordon(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Let a cordoned node be given work again."""
    _mark(settings, "uncordon-node", name, note, dry_run=dry_run)


@node.command(
    epilog=examples(
        'quorate node drain a1 --note "new firmware"',
        "quorate node drain a1 --dry-run     # who would have to move?",
    )
)
@_marking
@click.pass_obj
def drain(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Cordon a node and stop what is on it.

    What is stopped gets its grace to checkpoint. A malleable run goes on without the steps it had
    there; any other run waits again, in its old place, and starts elsewhere as soon as it can. A
    claim stays until its end.
    """
    _mark(settings, "drain-node", name, note, dry_run=dry_run)


@node.command(
    epilog=examples(
        "quorate node wiped a1",
        "quorate node wiped a1 --after scans     # what a script should say",
        'quorate node wiped a1 --failed --note "disk 2 does not answer"',
        "quorate get nodes     # Claimed, Wiping or Quarantined",
    )
)
@click.option("--failed", is_flag=True, help="It could not be wiped: quarantine it.")
@click.option(
    "--after",
    metavar="CLAIM",
    help="Only if this claim was the last one on the node, so that a late report frees nothing.",
)
@_marking
@click.pass_obj
def wiped(
    settings: Settings, *, name: str, failed: bool, after: str | None, note: str, dry_run: bool
) -> None:
    """Record that a node is clean after a claim.

    After a claim a node takes no other work before it was wiped. A node that could not be wiped is
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
    """Return the node's name; ``node/NAME``, as other commands print it, is taken too."""
    return name.removeprefix("node/")


def _mark(settings: Settings, operation: str, name: str, note: str, *, dry_run: bool) -> None:
    """Ask for one of the operations that say what a node is."""
    from quorate.cli.ask_and_print import ask
    from quorate.cli.commands.finish_command import checked_note
    from quorate.operations.fleet.fleet_operations import MarkNode

    asked = MarkNode(node=_node_name(name), note=checked_note(note), dry_run=dry_run)
    ask(settings, operation, asked)
