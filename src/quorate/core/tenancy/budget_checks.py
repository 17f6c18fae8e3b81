"""Checks of a declared budget against the state: every lease and spare must stay paid for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorate.core.commands import Applied
from quorate.core.tenancy.owner_checks import unknown
from quorate.model.amounts import hours_text
from quorate.model.closed_words import counted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.selector import matches
from quorate.model.specs import Budget, Envelope, Node, envelope_id
from quorate.model.state.records import EnvelopeAccount
from quorate.model.state.state_view import StateView


def check_budget(view: StateView, budget: Budget, owners: set[str]) -> Iterator[Refusal]:
    """Yield a refusal for each unknown owner, and for leases that the budget could not pay for."""
    path = f"Budget/{budget.name}: spec"
    if budget.owner not in owners:
        yield unknown(f"{path}.owner", "owner", budget.owner)
    for envelope in budget.envelopes:
        for name in envelope.lending.to:
            if not name.endswith("*") and name not in owners:
                yield unknown(f"{path}.envelopes[{envelope.name}].lending.to", "owner", name)
    old = view.budgets.get(budget.name)
    lines = () if old is None else old.envelopes
    new = {envelope.name: envelope for envelope in budget.envelopes}
    # An envelope that was removed and is declared again still has its past payments, so it is
    # checked, too.
    for name in dict.fromkeys((*(envelope.name for envelope in lines), *new)):
        account = view.envelopes.get(envelope_id(budget.name, name))
        if account is None or (account.gpus_active == 0 and account.committed_gpu_ms == 0):
            continue
        kept = new.get(name)
        if kept is not None and budget.owner != account.owner:
            yield _paid_before(path, name, account)
        yield from _check_used(view, f"{path}.envelopes[{name}]", account, kept)
    yield from _caps_overdrawn(view, path, budget)


def _check_used(
    view: StateView, where: str, account: EnvelopeAccount, kept: Envelope | None
) -> Iterator[Refusal]:
    """Yield a refusal for leases of ``account`` that the envelope could no longer pay for.

    ``kept`` is the changed envelope, or None if the envelope is removed.
    """
    if account.gpus_active and kept is None:
        yield _in_use(where, account.gpus_active, "so the envelope cannot be removed")
    elif account.gpus_reserved:
        yield from _spares_unpaid(view, where, account, kept)
    if kept is not None:
        tried = account.copy()
        tried.spec = kept
        yield from _overdrawn(view, where, tried)
        yield from _terms_worse(where, account, kept)


def _paid_before(path: str, name: str, account: EnvelopeAccount) -> Refusal:
    """Return the refusal of a new owner for an envelope that has already paid for runs.

    Otherwise the new owner would see whose runs the envelope paid for.
    """
    return Refusal(
        code=RefusalCode.CONFLICT,
        subject=f"{path}.owner: envelope {name!r} has paid, or has reserved hours, for "
        f"{account.owner!r}",
        remedy="create a budget or an envelope with another name for the new owner",
    )


def _terms_worse(where: str, account: EnvelopeAccount, kept: Envelope) -> Iterator[Refusal]:
    """Yield a refusal if ``kept`` would make present loans recallable, or shorten their notice."""
    lent = account.lent_gpus_active
    had, has = account.spec.lending.recall_notice_ms, kept.lending.recall_notice_ms
    if lent and has is not None and (had is None or has < had):
        what = "so recall cannot be added" if had is None else "so the notice cannot be shortened"
        yield _in_use(f"{where}.lending.recall.notice", lent, what)


def _overdrawn(view: StateView, where: str, account: EnvelopeAccount) -> Iterator[Refusal]:
    """Yield a refusal for each limit of ``account`` that is below the amount spent or promised.

    The concurrency may be below the GPUs in use: ``preemption/tightening.py`` handles that case.
    """
    spec = account.spec
    if account.committed_gpu_ms > spec.gpu_ms_granted:
        yield _spent(f"{where}.maxGPUHours", account.committed_gpu_ms, spec.gpu_ms_granted)
    lending = spec.lending
    lent = account.lent_gpus_active
    if lent and not lending.allow:
        yield _in_use(f"{where}.lending.allow", lent, "so lending cannot stop")
    if lending.gpu_ms_max is not None and account.lent_committed_gpu_ms > lending.gpu_ms_max:
        yield _spent(
            f"{where}.lending.maxGPUHours", account.lent_committed_gpu_ms, lending.gpu_ms_max
        )
    if not account.gpus_active:
        return
    for lease in view.leases.values():
        if lease.fact.payer != account.envelope_id:
            continue
        nodes = [view.nodes[node].spec for node, _ in lease.fact.slots]
        late = lease.hold_ends_ms > spec.end_ms or (
            lease.fact.start_ms < spec.start_ms and not spec.allow_admission
        )
        if late or not all(
            node.flavor == spec.flavor and matches(spec.selector, node.location) for node in nodes
        ):
            yield _in_use(where, lease.gpus, "but the flavor, selector or window excludes them")
            return


def _spares_unpaid(
    view: StateView, where: str, account: EnvelopeAccount, kept: Envelope | None
) -> Iterator[Refusal]:
    """Yield a refusal if filled spares of ``account`` could not come back under ``kept``.

    ``kept`` is the changed envelope, or None if the envelope is removed. It is allowed that, as
    time passes, too little of a window is left for a spare. But a change of the budget may not
    close the window before the present holds end.
    """
    pledges = [p for p in view.pledges.values() if p.payer == account.envelope_id]
    gpus, was = sum(pledge.gpus for pledge in pledges), account.spec
    if kept is None:
        yield _kept_spares(where, gpus, "so the envelope cannot be removed")
        return
    nodes = (view.nodes[node].spec for pledge in pledges for node, _ in pledge.slots)
    is_elsewhere = any(
        node.flavor != kept.flavor or not matches(kept.selector, node.location) for node in nodes
    )
    held_ms = max((pledge.hold_gpu_ms // pledge.gpus for pledge in pledges), default=0)
    is_closed = kept.end_ms < was.end_ms and view.at_ms + held_ms > kept.end_ms
    is_later = view.at_ms < kept.start_ms > was.start_ms and not kept.allow_admission
    if is_elsewhere or is_closed or is_later:
        yield _kept_spares(where, gpus, "but the flavor, selector or window excludes them")


def _kept_spares(where: str, gpus: int, why: str) -> Refusal:
    remedy = "end the runs that keep these spares first: quorate get runs -o wide"
    return _gpus_depend(where, gpus, f"kept for spares that other runs fill, {why}", remedy)


def _caps_overdrawn(view: StateView, path: str, budget: Budget) -> Iterator[Refusal]:
    """Yield a refusal for each cap on GPU-hours that is below what its envelopes spent and hold."""
    for cap in budget.caps:
        accounts = [
            account
            for name in cap.envelopes
            if (account := view.envelopes.get(envelope_id(budget.name, name))) is not None
        ]
        committed = sum(account.committed_gpu_ms for account in accounts)
        where = f"{path}.aggregateCaps[{cap.name}]"
        if cap.gpu_ms_max is not None and committed > cap.gpu_ms_max:
            yield _spent(f"{where}.maxGPUHours", committed, cap.gpu_ms_max)


def _in_use(where: str, gpus: int, why: str) -> Refusal:
    remedy = "first end the runs that the envelope pays for: quorate get leases -o wide"
    return _gpus_depend(where, gpus, f"in use by runs that the envelope pays for, {why}", remedy)


def _gpus_depend(where: str, gpus: int, state: str, remedy: str) -> Refusal:
    """Return the refusal of a change at ``where``; ``state`` says how ``gpus`` GPUs are in use."""
    return Refusal(
        code=RefusalCode.CONFLICT,
        subject=f"{where}: {counted(gpus, 'GPU')} {'is' if gpus == 1 else 'are'} {state}",
        wanted=gpus,
        remedy=remedy,
    )


def _spent(where: str, committed_gpu_ms: int, gpu_ms: int) -> Refusal:
    """Return the refusal of the limit ``gpu_ms``, which is below the GPU time spent and held."""
    least = hours_text(committed_gpu_ms, up=True)
    return Refusal(
        code=RefusalCode.CONFLICT,
        subject=f"{where}: {least} GPU-hours are spent or held already, {hours_text(gpu_ms)} is "
        "too low",
        remedy=f"use {least} or more; held GPU-hours that stay unused are released when runs end",
    )


def promise_warnings(view: StateView, specs: Sequence[Applied]) -> Iterator[str]:
    """Yield a warning for each flavor and selector whose envelopes promise too many GPUs.

    The envelopes promise too many GPUs if their concurrency is more than the number of GPUs on the
    nodes that the selector matches.
    """
    scopes: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    if not any(isinstance(spec, Budget | Node) for spec in specs):
        return
    for account in view.envelopes.values():
        if not account.retired:
            key = (account.spec.flavor, account.spec.selector)
            scopes[key] = scopes.get(key, 0) + account.spec.concurrency
    places: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for record in view.nodes.values():
        place = (record.spec.flavor, tuple(sorted(record.spec.location.items())))
        places[place] = places.get(place, 0) + record.spec.gpus
    for (flavor, selector), promised in sorted(scopes.items()):
        held = sum(
            gpus
            for (kind, place), gpus in places.items()
            if kind == flavor and matches(selector, dict(place))
        )
        if promised > held:
            scope = ",".join(f"{label}={value}" for label, value in selector)
            yield (
                f"envelopes promise {promised} {flavor} GPUs in {scope}, but the nodes there have "
                f"{held}, so not all of the promised GPUs can be in use at once"
            )
