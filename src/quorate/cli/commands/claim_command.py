"""``quorate claim`` and ``quorate release``: whole nodes for one user, until a stated end."""

from __future__ import annotations

from typing import Final

import click

from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

_OPTIONS: Final = {
    "metadata.name": "NAME",
    "spec.owner": "--owner",
    "spec.user": "--user",
    "spec.pool": "--pool",
    "spec.resources.gpuType": "--flavor",
    "spec.resources.totalGPUs": "--gpus",
    "spec.runtime.expectedDuration": "--for",
    "spec.runtime.checkpoint": "--checkpoint",
    "spec.locality.selector": "--select",
}


@click.command(
    epilog=examples(
        "quorate claim --owner hospital --flavor H100 --nodes 2 --for 8h",
        "quorate claim scans --owner hospital --flavor H100 --nodes 1 --for 2d --user dr-x",
        "quorate claim --owner hospital --flavor H100 --nodes 2 --for 8h --dry-run",
        "quorate get claims",
    )
)
@click.argument("name", required=False)
@click.option(
    "--owner", metavar="OWNER", required=True, help="The owner; only its own envelopes pay."
)
@click.option("--flavor", metavar="FLAVOR", required=True, help="The kind of GPU.")
@click.option("--nodes", metavar="N", type=click.IntRange(min=1), help="How many whole nodes.")
@click.option(
    "--gpus",
    metavar="N",
    type=click.IntRange(min=1),
    help=(
        "The number of GPUs, instead of --nodes, if nodes differ in size; must add up to whole "
        "nodes."
    ),
)
@click.option("--for", "duration", metavar="DURATION", required=True, help="The duration: 8h, 2d.")
@click.option("--user", metavar="USER", help="The user who gets the nodes.  [default: the caller]")
@click.option("--pool", metavar="POOL", help="The pool.  [default: default]")
@click.option(
    "--select",
    "labels",
    metavar="LABEL=VALUE",
    multiple=True,
    help="Only nodes with this label, such as fabric.domain=A. May be repeated.",
)
@click.option("--one-domain", is_flag=True, help="All nodes in one domain.")
@click.option(
    "--checkpoint",
    metavar="DURATION",
    help="The time between the stop signal to the work and the end of the claim.",
)
@writer
@click.pass_obj
def claim(
    settings: Settings,
    *,
    name: str | None,
    owner: str,
    flavor: str,
    nodes: int | None,
    gpus: int | None,
    duration: str,
    user: str | None,
    pool: str | None,
    labels: tuple[str, ...],
    one_domain: bool,
    checkpoint: str | None,
    dry_run: bool,
) -> None:
    """Claim whole nodes for sensitive work of one user, until a stated end.

    A claim is granted at once or refused: claims do not queue. The owner's own envelopes pay for
    the whole time of the claim, even while no work runs on its nodes; an early release returns the
    rest. No other run is placed on these nodes, and work on them is never stopped to free GPUs for
    other runs. Each node is wiped before another user gets it. The claim is recorded before its
    leases.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.fleet.claim_handlers import claim_document
    from quorate.operations.fleet.fleet_operations import ClaimNodes

    if (nodes is None) == (gpus is None):
        raise click.UsageError("give either --nodes N or --gpus N")
    asked = ClaimNodes(
        name=name,
        owner=owner,
        flavor=flavor,
        nodes=nodes,
        gpus=gpus,
        duration=duration,
        user=user,
        pool=pool,
        selector=_selector(labels),
        one_domain=one_domain,
        checkpoint=checkpoint,
        dry_run=dry_run,
    )
    # The claim is checked before it is sent, so that errors name the option. The check assumes one
    # GPU if the number of GPUs is not given.
    claim_document(asked, gpus or 1, words=_OPTIONS)
    ask(settings, "claim-nodes", asked)


def _selector(labels: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for label in labels:
        key, sign, value = label.partition("=")
        if not (key and sign and value):
            raise CommandError(Exit.USAGE, f"--select: {label!r} is not LABEL=VALUE")
        found[key] = value
    return found


@click.command(
    epilog=examples(
        "quorate release scans",
        'quorate release scans --note "study finished"',
        "quorate node wiped a1     # when it is clean again",
    )
)
@click.argument("name", metavar="CLAIM")
@click.option("--note", metavar="TEXT", default="", help="The reason; kept in the ledger.")
@writer
@click.pass_obj
def release(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Give the nodes of a claim back before its end.

    The GPU-hours held for the rest of the claim are released. The nodes take no other work until
    they are wiped: the executor wipes them, or an operator records the wipe with
    `quorate node wiped NODE`.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.cli.commands.finish_command import checked_note
    from quorate.cli.typed_names import run_name
    from quorate.operations.fleet.fleet_operations import ReleaseClaim

    claimed = run_name(name.removeprefix("claim/"))
    asked = ReleaseClaim(claim=claimed, note=checked_note(note), dry_run=dry_run)
    ask(settings, "release-claim", asked)
