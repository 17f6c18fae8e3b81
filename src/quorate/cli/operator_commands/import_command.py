"""``quorate import``: converts objects of another scheduler to documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorate.cli.global_options import examples, output_option
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.documents.kueue.kueue_owners import Terms


@click.group("import", epilog=examples("quorate import kueue kueue.yaml"))
def import_group() -> None:
    """Convert the objects of another scheduler to documents of Quorate."""


@import_group.command(
    epilog=examples(
        "quorate import kueue kueue.yaml > quorate.yaml",
        "quorate import kueue kueue.yaml --cluster west | quorate apply -f - --dry-run",
        "quorate import kueue kueue.yaml --cluster west --namespace quorate-{owner} | "
        "kubectl apply -f -",
        "quorate import kueue kueue.yaml --start 2027-01-01T00:00:00Z --end 2028-01-01T00:00:00Z",
    )
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--cluster",
    metavar="NAME",
    help="The cluster's name in the service's configuration: runs become pods there.",
)
@click.option(
    "--namespace",
    metavar="TEMPLATE",
    help="Print custom resources for kubectl; runs get these namespaces, such as quorate-{owner}.",
)
@click.option(
    "--start", metavar="TIME", help="When envelopes open.  [default: the beginning of today, UTC]"
)
@click.option("--end", metavar="TIME", help="When envelopes close.  [default: 365 days later]")
@output_option
@click.pass_obj
def kueue(
    settings: Settings,
    files: tuple[str, ...],
    *,
    cluster: str | None,
    namespace: str | None,
    start: str | None,
    end: str | None,
) -> None:
    """Convert manifests of Kueue to documents of Quorate.

    Reads ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology and Workload manifests of all
    files together; - is standard input. Prints owners, budgets and runs, and with --cluster also a
    pool. The output is YAML for `quorate apply -f -`, or with --namespace for `kubectl apply -f -`.
    Standard error lists each field of a manifest that Quorate has no counterpart for. Nothing is
    recorded. If a file has a fault, nothing is printed.
    """
    from quorate.adapters.kubernetes.resource_manifests import resource_manifest
    from quorate.cli.printing import print_tree
    from quorate.cli.sources import STDIN, read_bytes
    from quorate.documents import API_VERSION, Invalid, to_yaml
    from quorate.documents.kueue.kueue_import import KINDS, import_kueue

    if files.count(STDIN) > 1:
        raise click.UsageError("- is given twice; standard input can be read once")
    terms = _terms(settings, cluster, start, end)
    template = None if namespace is None else _template(namespace, cluster)
    texts = [("standard input" if name == STDIN else name, read_bytes(name)) for name in files]
    imported = import_kueue(texts, terms)
    if isinstance(imported, Invalid):
        raise CommandError(Exit.INVALID, *(problem.text() for problem in imported.problems))
    for note in imported.notes:
        click.echo(note.text(), err=True)
    if not imported.documents:
        raise CommandError(
            Exit.REFUSED,
            f"these files have nothing to import; of kueue.x-k8s.io only {', '.join(KINDS)} are "
            "read",
        )
    items = [
        each if template is None else resource_manifest(each, template)
        for each in imported.documents
    ]
    if settings.output == "json":
        print_tree(settings, {"apiVersion": API_VERSION, "kind": "List", "items": items})
    else:
        click.echo(to_yaml(*items), nl=False)


def _template(namespace: str, cluster: str | None) -> str:
    """Return the checked template for the owners' namespaces; raises ``UsageError``."""
    from quorate.service.config_values import WrongSettingError
    from quorate.service.config_values import namespace as read_namespace

    if cluster is None:
        raise click.UsageError("--namespace is for the resources of a cluster: add --cluster NAME")
    try:
        found = read_namespace(namespace)
    except WrongSettingError as error:
        raise click.UsageError(f"--namespace {error}") from None
    if "{owner}" not in found:
        raise click.UsageError("--namespace must have {owner} in it, such as quorate-{owner}")
    return found


def _terms(settings: Settings, cluster: str | None, start: str | None, end: str | None) -> Terms:
    """Return the settings that manifests do not contain: from the options, else the defaults."""
    from quorate.cli.session import clock_of
    from quorate.documents.field_reader import At, Fault
    from quorate.documents.kueue.kueue_owners import Terms
    from quorate.documents.times import time_ms
    from quorate.documents.values import name
    from quorate.model.amounts import DAY_MS

    faults: list[Fault] = []
    today_ms = clock_of(settings).now_ms() // DAY_MS * DAY_MS
    start_ms = today_ms if start is None else time_ms(start, At(("--start",), faults))
    end_ms = None if end is None else time_ms(end, At(("--end",), faults))
    if cluster is not None:
        name(cluster, At(("--cluster",), faults))
    if faults:
        raise click.UsageError(
            "; ".join(f"{each.path[0]} {each.message}: {each.remedy}" for each in faults)
        )
    assert start_ms is not None, start
    closes_ms = start_ms + 365 * DAY_MS if end_ms is None else end_ms
    if closes_ms <= start_ms:
        raise click.UsageError("--end must be after --start; move one of them")
    return Terms(start_ms=start_ms, end_ms=closes_ms, cluster=cluster)
