"""``quorate resolve``: an operator frees GPUs, after the notice period."""

from __future__ import annotations

from typing import Final

import click

from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

_KEYS: Final = ("flavor", "domain", "region", "cluster", "cap", "pool")
_MANY: Final = frozenset({"domain", "region", "cluster"})


@click.command(
    epilog=examples(
        "quorate resolve --scope flavor=H100,domain=A --deficit 8 --dry-run",
        "quorate resolve --scope flavor=H100,domain=us-west/c1/A --deficit 8",
        "quorate resolve --scope flavor=H100,region=us-west,cluster=c1 --deficit 16 --dry-run",
        "quorate resolve --scope cap=rai/all --deficit 8 --dry-run -o json",
    )
)
@click.option(
    "--scope",
    metavar="KEY=VALUE,...",
    required=True,
    help="flavor=F, and optionally domain=D, region=R, cluster=C (each may be repeated) and "
    "pool=P; or cap=BUDGET/CAP.",
)
@click.option(
    "--deficit",
    metavar="GPUS",
    type=click.IntRange(min=1),
    required=True,
    help="How many GPUs to free, in addition to those that are free now.",
)
@writer
@click.pass_obj
def resolve(settings: Settings, *, scope: str, deficit: int, dry_run: bool) -> None:
    """Free GPUs in a scope by hand, after the notice period.

    The conflict is declared at once, with all runs in its lottery, and settled after the pool's
    notice period. Backfilled runs past their declared end are stopped first, then spares, then
    steps of malleable runs; the lottery is drawn last. If all cuts together do not free enough
    GPUs, nothing is stopped.
    Give a domain by its key, region/cluster/domain, or by the last part of the key if this part is
    unique. A region or a cluster selects all domains in it. The default pool is `default`, or the
    only pool that has the flavor. With a cap, GPUs of the runs that count against the cap are
    freed.

    With --dry-run: shows what would be cut, the runs in the lottery with their odds, and a
    simulated draw.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.fleet.fleet_operations import Resolve

    wanted = _parsed(scope)
    asked = Resolve(
        flavor=next(iter(wanted.get("flavor", ())), None),
        domains=tuple(wanted.get("domain", ())),
        regions=tuple(wanted.get("region", ())),
        clusters=tuple(wanted.get("cluster", ())),
        cap=next(iter(wanted.get("cap", ())), None),
        pool=next(iter(wanted.get("pool", ())), None),
        deficit=deficit,
        dry_run=dry_run,
    )
    ask(settings, "resolve", asked)


def _parsed(scope: str) -> dict[str, list[str]]:
    """Return the values of each key of ``scope``; raises ``CommandError`` if it is not valid."""
    found: dict[str, list[str]] = {}
    for part in scope.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not value:
            raise _wrong(f"{part!r} is not KEY=VALUE; write it like flavor=H100,domain=A")
        if key not in _KEYS:
            from difflib import get_close_matches

            near = get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(_KEYS)}"
            raise _wrong(f"there is no key {key!r}; {hint}")
        if key in found and key not in _MANY:
            raise _wrong(f"{key} is given twice; give it once")
        found.setdefault(key, []).append(value)
    if "cap" in found:
        others = [key for key in found if key != "cap"]
        if others:
            raise _wrong(f"cap already selects the GPUs; remove {others[0]}")
    elif "flavor" not in found:
        raise _wrong("the scope has no flavor; write it like flavor=H100,domain=A")
    return found


def _wrong(what: str) -> CommandError:
    return CommandError(Exit.USAGE, f"--scope: {what}")
