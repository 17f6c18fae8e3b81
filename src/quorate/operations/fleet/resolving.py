"""Conflicts that an operator declares by hand, and the command that records due changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from quorate.core.commands import Resolve, Tick
from quorate.core.next_due import next_due_ms
from quorate.core.preemption.conflict_preview import foresee
from quorate.core.preemption.conflict_scope import by_hand
from quorate.model.refusal import Refusal
from quorate.model.specs import DEFAULT_POOL
from quorate.model.state.state_view import StateView
from quorate.operations.answer_types import Answer, Order
from quorate.operations.fleet import fleet_operations
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.failures import refused
from quorate.views.runs.conflict_view import contest_lines, contest_tree
from quorate.views.word_forms import until


def resolve(
    context: RequestContext, asked: fleet_operations.Resolve, operation: Operation
) -> Answer | Order:
    """Return the order to free GPUs in a scope; for a dry run, return the expected result."""
    del operation
    command = _command(context.recorded, asked)
    if asked.dry_run:
        return _expected_result(context, command)
    return Order(
        command=command,
        unchanged="a conflict over this scope is open already; see: quorate get resolveroutcomes",
    )


def tick(context: RequestContext, asked: fleet_operations.Tick, operation: Operation) -> Order:
    """Return the order to record everything that is due by now."""
    del asked, operation
    due_ms = next_due_ms(
        context.recorded, has_executor=context.has_executor, after_ms=context.now_ms
    )
    unchanged = "nothing is due, now or later"
    if due_ms is not None:
        unchanged = f"nothing is due before {until(due_ms, context.now_ms)}"
    return Order(command=Tick(), unchanged=unchanged)


def _command(view: StateView, asked: fleet_operations.Resolve) -> Resolve:
    """Return the command to free the requested GPUs; raise ``CommandError`` for unknown names."""
    flavor = asked.flavor
    if asked.cap is not None:
        if flavor is not None or asked.domains or asked.regions or asked.clusters:
            raise CommandError(
                Exit.INVALID, "cap: already selects the GPUs; leave out flavor and places"
            )
        if asked.cap not in view.caps:
            raise _missing(f"there is no cap {asked.cap!r}", sorted(view.caps))
        return Resolve(asked.pool or DEFAULT_POOL, "", (), asked.deficit, asked.cap)
    if flavor is None:
        raise CommandError(Exit.INVALID, "flavor: is required; name a flavor, or a cap")
    if asked.pool is not None and asked.pool not in view.pools:
        raise _missing(f"there is no pool {asked.pool!r}", sorted(view.pools))
    islands = {record.island for record in view.nodes.values()}
    pool = asked.pool or _only_pool({key.pool for key in islands if key.flavor == flavor}, flavor)
    known = sorted(key.domain for key in islands if (key.pool, key.flavor) == (pool, flavor))
    if not known:
        flavors = sorted({key.flavor for key in islands if key.pool == pool})
        raise _missing(f"pool {pool!r} has no node of flavor {flavor!r}", flavors)
    domains = tuple(_domain(word, known, flavor) for word in asked.domains)
    if asked.regions or asked.clusters:
        domains = _within(asked, domains or known, flavor)
    return Resolve(pool, flavor, domains, asked.deficit)


def _only_pool(pools: AbstractSet[str], flavor: str) -> str:
    """Return the pool for a request without one: ``default``, or the only pool with ``flavor``."""
    if DEFAULT_POOL in pools or not pools:
        return DEFAULT_POOL
    if len(pools) > 1:
        raise _missing(f"several pools have {flavor}; name one with pool=NAME", sorted(pools))
    return next(iter(pools))


def _within(asked: fleet_operations.Resolve, known: Sequence[str], flavor: str) -> tuple[str, ...]:
    """Return those domains of ``known`` that are in the requested regions and clusters."""
    places = {key: tuple(key.split("/")) for key in known}
    for number, (what, wanted) in enumerate(
        (("region", asked.regions), ("cluster", asked.clusters))
    ):
        there = {place[number] for place in places.values()}
        for word in wanted:
            if word not in there:
                raise _missing(f"there is no {flavor} in {what} {word!r}", sorted(there))
        if wanted:
            places = {key: place for key, place in places.items() if place[number] in wanted}
    return tuple(places)


def _domain(word: str, known: Sequence[str], flavor: str) -> str:
    """Return the key of the domain that ``word`` names, by the whole key or by its last part."""
    if word in known:
        return word
    matching = [key for key in known if key.endswith(f"/{word}")]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise _missing(f"domain {word!r} is ambiguous", matching)
    raise _missing(f"there is no {flavor} in domain {word!r}", known)


def _missing(what: str, known: Iterable[str]) -> CommandError:
    there = ", ".join(known) or "none"
    return CommandError(Exit.REFUSED, f"{what}; there are: {there}", fault=UNKNOWN_NAME)


def _expected_result(context: RequestContext, command: Resolve) -> Answer:
    """Return the result that the conflict would have in the present state; record nothing."""
    view, now_ms = context.recorded, context.now_ms
    question = by_hand(view, command)
    found = foresee(view, question, now_ms + view.pools[question.scope.pool].notice_ms)
    if isinstance(found, Refusal):
        raise refused([found])
    assert found is not None, "the request is for one GPU or more"
    return Answer(
        tree=lambda: {"dryRun": True, "contest": contest_tree(found)},
        lines=lambda _: [*contest_lines(found, now_ms), "dry run: nothing was recorded"],
    )
