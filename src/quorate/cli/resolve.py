"""``quorate resolve``: room made by hand, one notice ahead, by the rules that hold for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from quorate.answers.exits import CommandError, Exit
from quorate.cli.settings import Settings, examples, writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.core.commands import Resolve
    from quorate.loop.engine import Engine
    from quorate.model.view import StateView

_KEYS: Final = ("flavor", "domain", "pool")
_DEFAULT_POOL: Final = "default"


@click.command(
    epilog=examples(
        "quorate resolve --scope flavor=H100,domain=A --deficit 8 --dry-run",
        "quorate resolve --scope flavor=H100,domain=us-west/c1/A --deficit 8",
        "quorate resolve --scope flavor=H100,domain=A,domain=B --deficit 16 --dry-run -o json",
    )
)
@click.option(
    "--scope",
    metavar="KEY=VALUE,...",
    required=True,
    help="flavor=F, then domain=D (may be repeated; none means all) and pool=P.",
)
@click.option(
    "--deficit",
    metavar="GPUS",
    type=click.IntRange(min=1),
    required=True,
    help="How many GPUs are to be made free, beside those that are.",
)
@writer
@click.pass_obj
def resolve(settings: Settings, *, scope: str, deficit: int, dry_run: bool) -> None:
    """Make room in a scope, one notice from now.

    The conflict is declared at once, with everybody who enters its lottery, and settled when the
    pool's notice is over: overstayed backfill first, then spares, steps of malleable runs, and the
    lottery. Nothing is ended unless all of it together is enough. A domain is given by its key,
    region/cluster/domain, or by its last part where that is not ambiguous.

    With --dry-run: what would be cut, who would enter with which odds, and a dummy draw.
    """
    from quorate.cli.carry_out import carry_out
    from quorate.cli.session import writing

    wanted = _parsed(scope)
    with writing(settings, dry_run=dry_run) as engine:
        command = _command(engine.view, wanted, deficit)
        if dry_run:
            _foretell(settings, engine, command)
            return
        carry_out(
            settings,
            engine,
            command,
            dry_run=False,
            unchanged="a conflict over this is open already; see: quorate get resolveroutcomes",
        )


def _parsed(scope: str) -> dict[str, list[str]]:
    """Return the values of each key of ``scope``; raises ``CommandError`` for what is none."""
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
        if key in found and key != "domain":
            raise _wrong(f"{key} is given twice; give it once")
        found.setdefault(key, []).append(value)
    if "flavor" not in found:
        raise _wrong("it has no flavor; write it like flavor=H100,domain=A")
    return found


def _wrong(what: str) -> CommandError:
    return CommandError(Exit.USAGE, f"--scope: {what}")


def _command(view: StateView, wanted: dict[str, list[str]], deficit: int) -> Resolve:
    """Return the command; raises ``CommandError`` for what is not there."""
    from quorate.core.commands import Resolve

    (pool,) = wanted.get("pool", [_DEFAULT_POOL])
    (flavor,) = wanted["flavor"]
    if pool not in view.pools:
        raise _missing(f"there is no pool {pool!r}", sorted(view.pools))
    islands = {record.island for record in view.nodes.values()}
    known = sorted(key.domain for key in islands if (key.pool, key.flavor) == (pool, flavor))
    if not known:
        flavors = sorted({key.flavor for key in islands if key.pool == pool})
        raise _missing(f"pool {pool!r} has no node of flavor {flavor!r}", flavors)
    domains = tuple(_domain(word, known, flavor) for word in wanted.get("domain", ()))
    return Resolve(pool, flavor, domains, deficit)


def _domain(word: str, known: Sequence[str], flavor: str) -> str:
    """Return the key of the domain that ``word`` means, by its whole key or its last part."""
    if word in known:
        return word
    matching = [key for key in known if key.endswith(f"/{word}")]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise _missing(f"domain {word!r} is not clear", matching)
    raise _missing(f"there is no {flavor} in domain {word!r}", known)


def _missing(what: str, known: Sequence[str]) -> CommandError:
    return CommandError(
        Exit.REFUSED, f"--scope: {what}; there are: {', '.join(known) if known else 'none'}"
    )


def _foretell(settings: Settings, engine: Engine, command: Resolve) -> None:
    """Print what the conflict would come to, as things are; nothing is written."""
    from quorate.answers.contests import contest_lines, contest_tree
    from quorate.answers.failures import refused
    from quorate.cli.printing import print_tree
    from quorate.core.contest import foresee
    from quorate.core.question import Question
    from quorate.model.events import ConflictCause, Scope
    from quorate.model.refusal import Refusal

    view, now_ms = engine.view, engine.now_ms()
    scope = Scope(command.pool, command.flavor, tuple(sorted(set(command.domains))))
    question = Question(ConflictCause.BY_HAND, scope, gpus=command.gpus)
    found = foresee(view, question, now_ms + view.pools[command.pool].notice_ms)
    if isinstance(found, Refusal):
        raise refused([found])
    assert found is not None, "somebody asked for one GPU or more"
    if not settings.is_table:
        print_tree(settings, {"dryRun": True, "contest": contest_tree(found)})
        return
    for line in contest_lines(found, now_ms):
        click.echo(line)
    click.echo("dry run: nothing was recorded")
