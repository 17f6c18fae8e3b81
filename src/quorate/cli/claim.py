"""``quorate claim`` and ``quorate release``: whole nodes for one user, until a stated end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quorate.answers.exits import CommandError, Exit
from quorate.cli.settings import Settings, examples, writer

if TYPE_CHECKING:
    from quorate.documents import Document
    from quorate.model.view import StateView

_PREFIX: Final = "claim-"
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
@click.option("--owner", metavar="OWNER", required=True, help="Whose envelopes pay: its own only.")
@click.option("--flavor", metavar="FLAVOR", required=True, help="The kind of GPU.")
@click.option("--nodes", metavar="N", type=click.IntRange(min=1), help="How many whole nodes.")
@click.option(
    "--gpus",
    metavar="N",
    type=click.IntRange(min=1),
    help="How many GPUs instead, where nodes differ; they must make up whole nodes.",
)
@click.option("--for", "duration", metavar="DURATION", required=True, help="For how long: 8h, 2d.")
@click.option("--user", metavar="USER", help="For whom.  [default: whoever asks]")
@click.option("--pool", metavar="POOL", help="In which pool.  [default: default]")
@click.option(
    "--select",
    "labels",
    metavar="LABEL=VALUE",
    multiple=True,
    help="Only nodes with this label, such as fabric.domain=A. May be repeated.",
)
@click.option("--one-domain", is_flag=True, help="All nodes in one domain.")
@click.option(
    "--checkpoint", metavar="DURATION", help="How long before its end the work is told to stop."
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
    """Take whole nodes for one user and sensitive work, until a stated end.

    Granted at once or refused: there is no queue for claims. The owner's own envelopes pay for all
    of it from the start, whether anything works there or not; what is left when it is released
    early is theirs again. Nobody else is placed on these nodes, nothing there is cut or drawn, and
    each node is wiped before anybody else gets it. Who claimed what is recorded first.
    """
    from quorate.answers.readiness import ready
    from quorate.cli.carry_out import carry_out
    from quorate.cli.session import writing
    from quorate.core.commands import Submit

    if (nodes is None) == (gpus is None):
        raise click.UsageError("give either --nodes N or --gpus N")
    selector = _selector(labels)
    with writing(settings, dry_run=dry_run) as engine:
        view = engine.view
        if nodes is not None:
            gpus = nodes * _node_size(view, pool or "default", flavor, selector)
        spec: dict[str, Any] = {
            "owner": owner,
            "resources": {"gpuType": flavor, "totalGPUs": gpus},
            "runtime": {"expectedDuration": duration},
            "locality": {"allowCrossGroupSpread": not one_domain},
            "sensitive": True,
        }
        if selector:
            spec["locality"]["selector"] = selector
        if checkpoint is not None:
            spec["runtime"]["checkpoint"] = checkpoint
        spec |= {} if user is None else {"user": user}
        spec |= {} if pool is None else {"pool": pool}
        run = ready(_document(name, spec), view, settings.actor(), set())
        carry_out(settings, engine, Submit(run), dry_run=dry_run)


def _document(name: str | None, spec: dict[str, Any]) -> Document:
    """Return the claim as a document; raises ``CommandError`` with every option that is wrong."""
    from quorate.documents import API_VERSION, Invalid, parse_tree

    metadata = {"generateName": _PREFIX} if name is None else {"name": name}
    tree = {"apiVersion": API_VERSION, "kind": "Run", "metadata": metadata, "spec": spec}
    parsed = parse_tree(None, tree, source="options")
    if isinstance(parsed, Invalid):
        raise CommandError(
            Exit.INVALID,
            *(
                f"{_OPTIONS.get(each.path, each.path)}: {each.message}; {each.remedy}"
                for each in parsed.problems
            ),
        )
    return parsed.items[0]


def _selector(labels: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for label in labels:
        key, sign, value = label.partition("=")
        if not (key and sign and value):
            raise CommandError(Exit.USAGE, f"--select: {label!r} is not LABEL=VALUE")
        found[key] = value
    return found


def _node_size(view: StateView, pool: str, flavor: str, selector: dict[str, str]) -> int:
    """Return how many GPUs the nodes have that may be meant; raises where they differ."""
    from quorate.model.selector import matches, selector_of

    wanted = selector_of(selector)
    sizes = {
        record.spec.gpus
        for record in view.nodes.values()
        if record.island.pool == pool
        and record.spec.flavor == flavor
        and matches(wanted, dict(record.spec.labels) | record.spec.location)
    }
    if len(sizes) == 1:
        return sizes.pop()
    if sizes:
        counts = " or ".join(str(size) for size in sorted(sizes))
        raise CommandError(
            Exit.REFUSED, f"nodes with {flavor} have {counts} GPUs here: say --gpus N instead"
        )
    raise CommandError(
        Exit.REFUSED,
        f"pool {pool!r} has no such node with flavor {flavor!r}; list them: quorate get nodes",
    )


@click.command(
    epilog=examples(
        "quorate release scans",
        'quorate release scans --note "study finished"',
        "quorate node wiped a1     # when it is clean again",
    )
)
@click.argument("name", metavar="CLAIM")
@click.option("--note", metavar="TEXT", default="", help="Why; kept in the ledger.")
@writer
@click.pass_obj
def release(settings: Settings, *, name: str, note: str, dry_run: bool) -> None:
    """Give the nodes of a claim back before its end.

    What was held for the rest of its time is released. The nodes are given to nobody before they
    have been wiped: whoever runs the work does that, or somebody says: quorate node wiped NODE.
    """
    from quorate.cli.finish import checked_note, do, run_name
    from quorate.core.commands import Release

    claimed = run_name(name.removeprefix("claim/"))
    do(settings, Release(claimed, checked_note(note)), dry_run=dry_run)
