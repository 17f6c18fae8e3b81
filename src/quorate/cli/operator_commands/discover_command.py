"""``quorate node discover``: prints the Node document of this machine, or of a cluster's nodes."""

from __future__ import annotations

import socket
from http import HTTPStatus
from typing import Final

import click

from quorate.cli.global_options import examples, output_option
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

FLAVOR_UNKNOWN: Final = "GPU"
"""The flavor of declared GPUs whose model is unknown."""

_REMEDIES: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "get a new token or certificate for the user of the kubeconfig",
    HTTPStatus.FORBIDDEN: "allow the user of the kubeconfig to list nodes",
}
"""The remedy for each HTTP status with which an API server may refuse to list nodes."""


@click.command(
    epilog=examples(
        'quorate node discover || echo "declare them: --gpus 4"',
        "quorate node discover --gpus 4 --flavor H100 > this.yaml",
        "quorate node discover --gpus 2 --name laptop -o json",
        'quorate node discover --kubeconfig west.kubeconfig --cluster west || echo "not there"',
    )
)
@click.option(
    "--flavor", metavar="NAME", help="The flavor of the GPUs; by default the name of their model."
)
@click.option(
    "--gpus",
    metavar="N",
    type=int,
    help="The number of GPUs to declare, even if the machine has none.",
)
@click.option("--name", metavar="NAME", help="The name of the node; by default the host's name.")
@click.option(
    "--kubeconfig", metavar="PATH", help="Print the GPU nodes of this Kubernetes cluster instead."
)
@click.option("--context", metavar="NAME", help="The context of the kubeconfig.")
@click.option("--cluster", metavar="NAME", help="With --kubeconfig: the cluster's name in pools.")
@output_option
@click.pass_obj
def discover(  # noqa: PLR0917 - click passes them by name
    settings: Settings,
    flavor: str | None,
    gpus: int | None,
    name: str | None,
    kubeconfig: str | None,
    context: str | None,
    cluster: str | None,
) -> None:
    """Print the Node document of this machine.

    NVIDIA's library finds the GPUs; install it with: pip install 'quorate[nvml]'. To try Quorate on
    a machine without GPUs, declare some: --gpus 4. Nothing is recorded; check the document, then
    run: quorate apply -f FILE.

    With --kubeconfig and --cluster, prints the nodes with GPUs of a Kubernetes cluster instead. The
    number of a node's GPUs is its resource nvidia.com/gpu; the labels of the node determine its
    place and flavor.
    """
    from quorate.cli.printing import print_tree
    from quorate.documents.render import render
    from quorate.documents.values import is_name
    from quorate.model.amounts import GPUS_PER_NODE_MAX
    from quorate.model.specs import Node

    if kubeconfig is not None:
        if cluster is None or flavor or gpus or name:
            raise click.UsageError(
                "--kubeconfig needs --cluster NAME, and no --name, --gpus or --flavor"
            )
        if not is_name(cluster):
            raise click.UsageError(f"--cluster must be a name like west, got {cluster!r}")
        _print_cluster(settings, kubeconfig, context, cluster)
        return
    if context is not None or cluster is not None:
        raise click.UsageError("--context and --cluster need --kubeconfig PATH")
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


def _print_cluster(settings: Settings, kubeconfig: str, context: str | None, cluster: str) -> None:
    """Print the documents of a cluster's GPU nodes; list on stderr the nodes that are left out."""
    from pathlib import Path

    from quorate.adapters.kubernetes.cluster_access import from_kubeconfig
    from quorate.adapters.kubernetes.kube_api import KubeApi
    from quorate.adapters.kubernetes.node_inventory import NODES, nodes_of
    from quorate.cli.printing import print_tree
    from quorate.documents.render import render
    from quorate.model.api_version import API_VERSION
    from quorate.ports.errors import ClusterError, ClusterRefusedError

    access = None
    try:
        access = from_kubeconfig(Path(kubeconfig), context)
        api = KubeApi(access)
        try:
            trees, _ = api.list_all(NODES)
        finally:
            api.close()
    except ClusterRefusedError as error:
        server = "" if access is None else access.server
        remedy = _REMEDIES.get(error.status, f"does {kubeconfig} name the right server?")
        raise CommandError(Exit.UNUSABLE, f"{server} refused: {error}; {remedy}") from None
    except ClusterError as error:
        raise CommandError(Exit.UNUSABLE, str(error)) from None
    found, left_out = nodes_of(trees, cluster)
    for each in left_out:
        click.echo(f"node {each.name} is left out: {each.why}", err=True)
    if not found:
        why = "no node offers nvidia.com/gpu; is the device plugin installed?"
        if left_out:
            why = "every node with GPUs is left out; correct each as listed, and try again"
        raise CommandError(
            Exit.REFUSED, f"none of the cluster's {len(trees)} nodes can be declared: {why}"
        )
    items = [render(node) for node in found]
    print_tree(settings, {"apiVersion": API_VERSION, "kind": "List", "items": items})


def _found(flavor: str | None, gpus: int | None) -> tuple[str, int]:
    """Return the flavor and the number of GPUs; a value that is not given is detected."""
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
            f"{why}; to declare GPUs anyway: quorate node discover --gpus 4 --flavor H100",
        )
    kinds = sorted(set(found))
    if len(kinds) > 1 and flavor is None:
        raise CommandError(
            Exit.REFUSED,
            f"this machine has GPUs of several kinds ({', '.join(kinds)}), but a node may have "
            "only one kind; say which, and how many: quorate node discover --gpus N --flavor NAME",
        )
    return flavor or kinds[0], len(found)
