"""Commands for tenants: create an owner, change its fields, or remove it when it has no resources.

``declare`` replaces a whole owner by its document. The commands of this module change only the
given fields. If the command gives the version that the caller has read, it is refused when the
owner no longer has this version. So of two concurrent changes of one owner, the second is refused
and cannot undo the first by accident.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import assert_never

from msgspec.structs import replace

from quorate.core.commands import Change, CreateOwner, Decision, RemoveOwner, UpdateOwner
from quorate.core.decision_log import DecisionLog
from quorate.core.tenancy.access_tokens import KIND, revoke_of_tenant
from quorate.core.tenancy.owner_checks import check_owners, share_warnings
from quorate.model.amounts import hours_text
from quorate.model.closed_words import counted
from quorate.model.events import OwnerApplied, OwnerRemoved
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Owner
from quorate.model.state.records import EnvelopeAccount
from quorate.model.state.state_view import StateView

NAMES_SHOWN_MAX = 5


def change_owner(log: DecisionLog, command: CreateOwner | UpdateOwner | RemoveOwner) -> Decision:
    """Write the events of ``command``, or return why it is refused."""
    match command:
        case CreateOwner():
            return _create_owner(log, command)
        case UpdateOwner():
            return _update_owner(log, command)
        case RemoveOwner():
            return _remove_owner(log, command)
        case _:
            assert_never(command)


def _create_owner(log: DecisionLog, command: CreateOwner) -> Decision:
    """Write a new owner, or return why it is refused."""
    owner = command.owner
    if owner.name in log.view.owners:
        refusal = Refusal(
            code=RefusalCode.ALREADY_EXISTS,
            subject=f"there is an owner {owner.name!r} already",
            remedy=f"change it: quorate admin tenant update {owner.name}",
        )
        return Decision(refusals=(refusal,))
    return _write(log, owner, command.reason, Change.CREATED)


def _update_owner(log: DecisionLog, command: UpdateOwner) -> Decision:
    """Write the owner with the changed fields; change nothing if they have these values already."""
    refusal = _not_as_read(log.view, command.name, command.version)
    if refusal is not None:
        return Decision(refusals=(refusal,))
    old = log.view.owners[command.name]
    owner = merged(old, command)
    if owner == old:
        return Decision(changes=(("Owner", owner.name, Change.UNCHANGED),))
    return _write(log, owner, command.reason, Change.CONFIGURED)


def merged(owner: Owner, command: UpdateOwner) -> Owner:
    """Return ``owner`` with the fields that ``command`` gives; its other fields do not change."""
    parents = owner.parents if command.parents is None else command.parents
    return replace(owner, parents=parents, quota=replace(owner.quota, **dict(command.quota)))


def _remove_owner(log: DecisionLog, command: RemoveOwner) -> Decision:
    """Write the removal of the owner, or return a refusal for each resource that it still has."""
    view, name = log.view, command.name
    refusal = _not_as_read(view, name, command.version)
    if refusal is not None:
        return Decision(refusals=(refusal,))
    refusals = tuple(_holds(view, name, log.now_ms))
    if refusals:
        return Decision(refusals=refusals)
    warnings = (*_retired(view, name), *_lent_to(view, name))
    tokens = revoke_of_tenant(log, name)
    if tokens:
        warnings += (
            f"{counted(len(tokens), 'access token')} revoked with the tenant: {_listed(tokens)}",
        )
    log.write(OwnerRemoved(at_ms=log.now_ms, actor=log.actor, owner=name, reason=command.reason))
    revoked = ((KIND, token, Change.REMOVED) for token in tokens)
    return Decision(changes=(("Owner", name, Change.REMOVED), *revoked), warnings=warnings)


def _write(log: DecisionLog, owner: Owner, reason: str, change: Change) -> Decision:
    refusals = tuple(check_owners(log.view, {owner.name: owner}))
    if refusals:
        return Decision(refusals=refusals)
    before = log.view.owners.get(owner.name)
    log.write(OwnerApplied(at_ms=log.now_ms, actor=log.actor, owner=owner, reason=reason))
    # A warning about shares shows the shares of other owners. Only callers who change shares may
    # see these, so only they get the warning.
    shares = () if before is not None and _shares(before) == _shares(owner) else (owner.name,)
    return Decision(
        changes=(("Owner", owner.name, change),),
        warnings=tuple(share_warnings(log.view, shares)),
    )


def _shares(owner: Owner) -> tuple[object, ...]:
    return owner.parents, owner.quota.fair_share_target_ppm


def _not_as_read(view: StateView, name: str, version: int | None) -> Refusal | None:
    """Return a refusal if the owner does not exist, or has changed since ``version`` was read."""
    if name not in view.owners:
        return Refusal(
            code=RefusalCode.UNKNOWN_NAME,
            subject=f"there is no owner {name!r}",
            remedy="list them: quorate admin tenant list",
        )
    current = view.owner_versions[name]
    if version is None or version == current:
        return None
    return Refusal(
        code=RefusalCode.STALE_VERSION,
        subject=f"owner {name!r} is at version {current}, not at {version}",
        wanted=version,
        current=current,
        remedy=f"read it again, then repeat: quorate admin tenant get {name}",
    )


# --- What keeps an owner from being removed ---


def _holds(view: StateView, name: str, now_ms: int) -> Iterator[Refusal]:
    """Yield a refusal for the owner's children, runs, unwiped nodes and envelopes in use."""
    children = view.children.get(name, ())
    if children:
        yield _held(
            f"owner {name!r} is the parent of {_listed(children)}",
            f"remove them first, or give them other parents: quorate admin tenant update "
            f"{children[0]} --parent OTHER, or --unset parents",
        )
    running = dict.fromkeys(view.leases[key].fact.run for key in view.owner_leases.get(name, ()))
    if running:
        yield _held(
            f"owner {name!r} has {counted(len(running), 'running run')}: {_listed(running)}",
            f"wait until they end, or stop them: quorate cancel {next(iter(running))}",
        )
    candidates = (*view.pending, *(run for run in view.in_rounds if run not in running))
    waiting = [run for run in candidates if view.runs[run].spec.owner == name]
    if waiting:
        yield _held(
            f"owner {name!r} has {counted(len(waiting), 'waiting run')}: {_listed(waiting)}",
            f"withdraw waiting runs: quorate cancel {waiting[0]}",
        )
    unwiped = [
        n for n, claimed in view.unwiped.items() if view.runs[claimed.claim].spec.owner == name
    ]
    if unwiped and not running:
        yield _held(
            f"nodes that owner {name!r} had claimed were not wiped yet: {_listed(unwiped)}",
            f"wipe them first, then record that: quorate node wiped {unwiped[0]}",
        )
    for key in sorted(key for key, account in view.envelopes.items() if account.owner == name):
        yield from _line_holds(view, view.envelopes[key], now_ms)


def _line_holds(view: StateView, account: EnvelopeAccount, now_ms: int) -> Iterator[Refusal]:
    """Yield a refusal if an envelope pays for leases now, or keeps GPU-hours for later."""
    key = account.envelope_id
    if account.gpus_active:
        runs = dict.fromkeys(view.leases[lease].fact.run for lease in view.payer_leases[key])
        yield _held(
            f"the envelope {key} pays for {counted(account.gpus_active, 'GPU')} of {_listed(runs)}",
            "wait until they end, or stop them: quorate get leases -o wide",
        )
        return
    kept = account.held_gpu_ms(now_ms)
    if account.gpus_reserved or kept:
        yield _held(
            f"the envelope {key} holds {hours_text(kept, up=True)} GPU-hours for firm starts or "
            "filled spares",
            "cancel the runs that the hours are held for, or wait: quorate get reservations -o "
            "wide",
        )


def _held(subject: str, remedy: str) -> Refusal:
    return Refusal(code=RefusalCode.CONFLICT, subject=subject, remedy=remedy)


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:NAMES_SHOWN_MAX])
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _retired(view: StateView, name: str) -> Iterator[str]:
    """Yield a warning that names the owner's budgets, which pay for nothing after its removal."""
    budgets = view.owner_budgets.get(name, ())
    if budgets:
        what = "budget {} no longer pays" if len(budgets) == 1 else "budgets {} no longer pay"
        yield f"{what.format(_listed(budgets))}; past payments stay recorded"


def _lent_to(view: StateView, name: str) -> Iterator[str]:
    """Yield a warning that names the budgets that still list the owner as a borrower."""
    lenders = sorted(
        budget.name
        for budget in view.budgets.values()
        if budget.owner != name and any(name in each.lending.to for each in budget.envelopes)
    )
    if lenders:
        yield (
            f"lending.to of {_listed(lenders)} still names {name}: an owner of that name that is "
            "created later may borrow there"
        )
