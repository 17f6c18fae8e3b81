"""``quorate node discover``: the Node document of the machine that it is typed on."""

from __future__ import annotations

import socket
from typing import Final

import click

from quorate.cli.global_options import examples, output_option
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

FLAVOR_UNKNOWN: Final = "GPU"
"""The flavor of declared GPUs without a name."""


@click.command(
    epilog=examples(
        'quorate node discover || echo "declare them: --gpus 4"',
        "quorate node discover --gpus 4 --flavor H100 > this.yaml",
        "quorate node discover --gpus 2 --name laptop -o json",
    )
)
@click.option(
    "--flavor", metavar="NAME", help="The flavor of its GPUs; by default the name of their model."
)
@click.option("--gpus", metavar="N", type=int, help="How many GPUs to declare, found or not.")
@click.option("--name", metavar="NAME", help="The name of the node; by default the host's name.")
@output_option
@click.pass_obj
def discover(settings: Settings, *, flavor: str | None, gpus: int | None, name: str | None) -> None:
    """Print the Node document of this machine.

    Its GPUs are found with NVIDIA's library, an optional part: pip install 'quorate[nvml]'. A
    machine without any can be declared as well, to try everything: --gpus 4. Nothing is recorded;
    check the document, and then: quorate apply -f FILE.
    """
    from quorate.cli.printing import print_tree
    from quorate.documents.render import render
    from quorate.documents.values import is_name
    from quorate.model.amounts import GPUS_PER_NODE_MAX
    from quorate.model.specs import Node

    if gpus is not None and not 1 <= gpus <= GPUS_PER_NODE_MAX:
        raise click.UsageError(f"--gpus must be from 1 to {GPUS_PER_NODE_MAX}, got {gpus}")
    kind, count = (flavor, gpus) if flavor and gpus else _found(flavor, gpus)
    host = socket.gethostname().partition(".")[0].lower()
    called = name or (host if is_name(host) else "this")
    for option, value in (("--flavor", kind), ("--name", called)):
        if not is_name(value):
            raise click.UsageError(f"{option} must be a name like team-a, got {value!r}")
    node = Node(
        name=called, flavor=kind, gpus=count, region="local", cluster="local", domain=called
    )
    print_tree(settings, render(node))


def _found(flavor: str | None, gpus: int | None) -> tuple[str, int]:
    """Return the flavor and the number of GPUs to declare, where one of them is not given."""
    from quorate.adapters.gpus_nvml import flavors, installed
    from quorate.ports.errors import GpusUnknownError

    why = "this machine has no GPU"
    try:
        found = flavors(installed())
    except GpusUnknownError as error:
        found, why = [], str(error)
    if gpus is not None:
        return (flavor or (found[0] if found else FLAVOR_UNKNOWN)), gpus
    if not found:
        raise CommandError(
            Exit.REFUSED,
            f"{why}; to declare some all the same: quorate node discover --gpus 4 --flavor H100",
        )
    kinds = sorted(set(found))
    if len(kinds) > 1 and flavor is None:
        raise CommandError(
            Exit.REFUSED,
            f"this machine has GPUs of several kinds ({', '.join(kinds)}), but a node may have "
            "only one kind; say which, and how many: quorate node discover --gpus N --flavor NAME",
        )
    return flavor or kinds[0], len(found)
