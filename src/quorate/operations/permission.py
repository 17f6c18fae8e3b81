"""Which callers may give which commands. Whatever this module does not allow is denied.

Only an admin creates owners, and sets parents, targets and weights. Only an admin creates, raises
or extends envelopes and caps. A tenant-admin may lower envelopes and caps of its own tenants, and
set sharing and lending. Users act on the runs of their own tenant. An accounting system sets limits
and budgets of the owners that are linked to it, and nothing else.

The owner of a run comes from the caller's token (docs/adr/0019). To claim nodes, a caller needs the
scope ``claim``. Only an admin grants this scope, because a claim cannot be cut (docs/adr/0027).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from quorate.core.commands import (
    Apply,
    Cancel,
    CancelTasks,
    Command,
    Complete,
    Fail,
    IssueToken,
    Release,
    RevokeToken,
    Shrink,
    Submit,
    UpdateOwner,
)
from quorate.core.tenancy.owner_checks import unknown
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Budget, Cap, Envelope, Node, Owner, Pool, Quota, Run, System
from quorate.model.state.state_view import StateView
from quorate.model.task_arrays import upstreams_of
from quorate.operations.caller import CLAIM, Caller, Role
from quorate.operations.operation import Area
from quorate.operations.reserved_fields import own_field_faults
from quorate.operations.visibility import knows_token, seen_by, sees_owner
from quorate.views.exits import CommandError, Exit
from quorate.views.failures import refused
from quorate.views.kinds.tenant_fields import QUOTA_FIELDS
from quorate.views.redaction.redaction import Redaction

FORBIDDEN: Final = "forbidden"
_LIMITS: Final = (
    "nodes_max",
    "concurrent_runs_max",
    "gpu_ms_budget",
    "node_ms_budget",
)
"""The limits that a tenant-admin may lower, and that an accounting system sets for linked owners.
"""
_CALLED: Final = {field: typed for typed, field in QUOTA_FIELDS.items()}
"""For each field of a quota, its name in requests."""
AREAS: Final[dict[type, Area]] = {
    Node: Area.FLEET,
    Pool: Area.FLEET,
    Owner: Area.TENANTS,
    Budget: Area.MONEY,
    Run: Area.RUNS,
    System: Area.SERVICE,
}
"""For each type of document, its area. A token that is limited to other areas may not apply such a
document."""


def check_command(view: StateView, caller: Caller, command: Command) -> None:
    """Raise ``CommandError`` unless ``caller`` may give ``command``."""
    why = denial(view, caller, command)
    if why:
        raise CommandError(Exit.REFUSED, why, fault=FORBIDDEN)
    faults = own_field_faults(view, command)
    if faults:
        raise refused(faults)


def denial(view: StateView, caller: Caller, command: Command) -> str:
    """Return why ``caller`` may not give ``command``; empty if ``caller`` may give it."""
    if isinstance(command, IssueToken) and _is_wider(caller, command):
        return (
            f"scopes: your token is limited to {', '.join(sorted(caller.areas))}; a token that "
            "you issue with it must be limited to some of these"
        )
    why = _out_of_scope(caller, command) or _of_claim(caller, command)
    if why or caller.role is Role.ADMIN:
        return why
    return _of_people(view, caller, command)


def _of_people(view: StateView, caller: Caller, command: Command) -> str:
    """Return why ``caller``, who is no admin, may not give ``command``; empty if it may."""
    why = "only an admin may do this"
    match command:
        case RevokeToken(token=name) if name == caller.token:
            why = ""  # The holder of a token may revoke it.
        case _ if caller.role in {Role.AUDITOR, Role.ACCOUNTING}:
            why = _without_tenant(view, caller, command)
        case Submit(run=run):
            why = _of_run(view, caller, run)
            _check_named(view, caller, (run,))
        case (
            Cancel(run=name)
            | Complete(run=name)
            | Fail(run=name)
            | Shrink(run=name)
            | Release(claim=name)
        ):
            why = _of_known(view, caller, name)
        case CancelTasks(runs=names):
            why = next(filter(None, (_of_known(view, caller, name) for name in names)), "")
        case Apply(specs=specs):
            why = next(filter(None, (_of_spec(view, caller, spec) for spec in specs)), "")
            _check_named(view, caller, [spec for spec in specs if isinstance(spec, Run)])
        case UpdateOwner():
            why = _of_update(view, caller, command)
        case IssueToken():
            why = _of_token(view, caller, command)
        case RevokeToken(token=name):
            why = _of_known_token(view, caller, name)
        case _:
            pass
    return why


def _out_of_scope(caller: Caller, command: Command) -> str:
    """Return why the token's areas do not permit the content of ``command``; empty if they do.

    The area of the operation itself is checked by ``check_role``.
    """
    limits = f"your token is limited to {', '.join(sorted(caller.areas))}"
    match command:
        case _ if not caller.areas:
            return ""
        case Apply(specs=specs):
            areas = {AREAS[type(spec)]: spec for spec in specs}
            area = next((each for each in areas if each not in caller.areas), None)
            if area is not None:
                return f"{type(areas[area]).__name__}: {limits}; this needs a token for {area}"
        case RevokeToken(token=name) if Area.SERVICE not in caller.areas and name != caller.token:
            return (
                f"token: {limits}: the token may revoke itself; to revoke others, use a token for "
                "service"
            )
        case _:
            pass
    return ""


def _of_claim(caller: Caller, command: Command) -> str:
    """Return why ``command`` may not claim nodes, or grant this right; empty if it may."""
    match command:
        case IssueToken(scopes=scopes) if CLAIM in scopes and not caller.may_grant_claims:
            return (
                f"scopes: only an admin may grant the scope {CLAIM}, which is needed to claim nodes"
            )
        case Submit(run=run):
            claims = run.sensitive
        case Apply(specs=specs):
            claims = any(isinstance(spec, Run) and spec.sensitive for spec in specs)
        case _:
            claims = False
    return _no_claim(caller) if claims else ""


def check_may_claim(caller: Caller) -> None:
    """Raise ``CommandError`` unless ``caller`` may claim nodes at all."""
    why = _no_claim(caller)
    if why:
        raise CommandError(Exit.REFUSED, why, fault=FORBIDDEN)


def _no_claim(caller: Caller) -> str:
    """Return why ``caller`` may not claim nodes; empty if it may."""
    if caller.may_claim:
        return ""
    whose = f" --tenant {caller.tenant}" if caller.tenant else ""
    return (
        f"claiming nodes (sensitive: true) needs the scope {CLAIM}, which your token does not "
        f"have; only an admin may grant it: quorate token issue --role {caller.role}{whose} --user "
        f"{caller.user} --scope {CLAIM}, or at the identity provider in the claim that "
        "oidc.scopes_claim names"
    )


def _check_named(view: StateView, caller: Caller, runs: Sequence[Run]) -> None:
    """Raise ``CommandError`` if one of ``runs`` names runs or sponsors hidden from the caller.

    The error has the same text as for a name that does not exist, so that it does not reveal
    whether the name exists.
    """
    sight, new = Redaction(view, seen_by(view, caller)), {run.name for run in runs}
    new |= {run.array.name for run in runs if run.array is not None}
    missing = [
        unknown(f"Run/{run.name}: spec.follow.after", "run", each.name)
        for run in runs
        for each in upstreams_of(run)
        if each.name not in new and not sight.shows_run(each.name)
    ] + [
        unknown(f"Run/{run.name}: spec.funding.sponsors", "owner", name)
        for run in runs
        for name in run.funding.sponsors
        if not (name in view.owners and (sight.shows_owner(name) or _lends(view, name, run.owner)))
    ]
    if missing:
        raise refused(missing)


def _lends(view: StateView, lender: str, owner: str) -> bool:
    """Return whether ``lender`` lends to ``owner``, who may then know the lender's name."""
    return any(
        line.lending.allow and line.lending.admits(owner)
        for name in view.owner_budgets.get(lender, ())
        for line in view.budgets[name].envelopes
    )


def _of_run(view: StateView, caller: Caller, run: Run) -> str:
    if not _acts_for(view, caller, run.owner):
        return f"spec.owner: you act for {caller.tenant!r}, not for {run.owner!r}"
    if run.user != caller.user:
        return f"spec.user: your token sets it to {caller.user!r}; leave it out"
    return ""


def _acts_for(view: StateView, caller: Caller, owner: str) -> bool:
    """Return whether ``caller`` may act on the runs of ``owner``.

    A user may act on the runs of its own tenant. A tenant-admin may also act on the runs of the
    tenants below its own.
    """
    is_near = owner == caller.tenant or caller.role is Role.TENANT_ADMIN
    return is_near and sees_owner(view, caller, owner)


def _of_known(view: StateView, caller: Caller, name: str) -> str:
    record = view.runs.get(name)
    if record is None or _acts_for(view, caller, record.spec.owner):
        return ""
    # A request about a hidden resource is refused with the same text as for a missing one, so that
    # the text does not reveal whether the resource exists.
    if not sees_owner(view, caller, record.spec.owner):
        raise _missing(f"there is no run {name!r}", "list them: quorate get runs")
    return f"run {name!r}: its owner is {record.spec.owner!r}, but you act for {caller.tenant!r}"


def _is_wider(caller: Caller, command: IssueToken) -> bool:
    """Return whether the new token would allow more areas than the issuer's own token."""
    areas = set(command.scopes) - {CLAIM}
    return bool(caller.areas) and not (areas and caller.areas.issuperset(areas))


def _of_token(view: StateView, caller: Caller, command: IssueToken) -> str:
    if caller.role is not Role.TENANT_ADMIN:
        return "a user cannot issue tokens; ask an admin, or a tenant-admin of the tenant"
    if command.role not in (Role.USER, Role.TENANT_ADMIN):
        return f"role: only an admin issues a token for the role {command.role}"
    if not sees_owner(view, caller, command.tenant):
        return f"tenant: you act for {caller.tenant!r}, not for {command.tenant!r}"
    return ""


def _of_known_token(view: StateView, caller: Caller, name: str) -> str:
    record = view.tokens.get(name)
    if record is not None and not knows_token(view, caller, record):
        raise _missing(
            f"there is no token {name!r}", "give the id of the token, which is not its secret"
        )
    return ""


def _missing(subject: str, remedy: str) -> CommandError:
    """Return the error for a missing name; for a hidden name, text and code are the same."""
    return refused([Refusal(code=RefusalCode.UNKNOWN_NAME, subject=subject, remedy=remedy)])


def _of_spec(view: StateView, caller: Caller, spec: object) -> str:
    if isinstance(spec, Run):
        return _of_run(view, caller, spec)
    if isinstance(spec, Budget) and caller.role is Role.TENANT_ADMIN:
        return _of_budget(view, caller, spec)
    return "a user may apply only runs, a tenant-admin only runs and its own budgets; ask an admin"


def _of_budget(view: StateView, caller: Caller, new: Budget) -> str:
    old = view.budgets.get(new.name)
    # The text for a hidden resource is the same as for a resource that does not exist.
    if old is None or not sees_owner(view, caller, old.owner):
        return f"budget {new.name!r}: only an admin creates budgets"
    if new.owner != old.owner:
        return f"budget {new.name!r}: only an admin may give it to another owner"
    lines = {line.name: line for line in old.envelopes}
    for line in new.envelopes:
        known = lines.get(line.name)
        if known is None:
            return f"envelope {line.name!r}: only an admin creates envelopes"
        why = _raised(known, line)
        if why:
            return f"envelope {line.name!r}: only an admin {why}"
    caps, kept = {cap.name: cap for cap in new.caps}, {line.name for line in new.envelopes}
    for cap in old.caps:
        why = _loosened(cap, caps.get(cap.name), kept)
        if why:
            return f"cap {cap.name!r}: only an admin {why}"
    return ""


def _raised(old: Envelope, new: Envelope) -> str:
    """Return how ``new`` grants more than ``old``, or serves another purpose; empty if neither."""
    kept = {"sharing", "lending"}
    if new.concurrency > old.concurrency:
        return f"raises its concurrency from {old.concurrency} to {new.concurrency}"
    if new.gpu_ms_granted > old.gpu_ms_granted:
        return "raises its GPU-hours"
    if new.start_ms < old.start_ms or new.end_ms > old.end_ms:
        return "extends its window"
    lowered = replace(
        new,
        concurrency=old.concurrency,
        gpu_ms_max=old.gpu_ms_max,
        start_ms=old.start_ms,
        end_ms=old.end_ms,
        **{field: getattr(old, field) for field in kept},
    )
    return "" if lowered == old else "changes its purpose"


def _loosened(old: Cap, new: Cap | None, kept: set[str]) -> str:
    """Return how ``new`` limits the envelopes ``kept`` less than ``old``; empty if not.

    ``new`` is None if the cap is removed.
    """
    if not kept.intersection(old.envelopes):
        return ""
    if new is None:
        return "removes it"
    if kept.intersection(old.envelopes).difference(new.envelopes) or new.flavor != old.flavor:
        return "removes envelopes from it"
    for field, what in (("concurrency_max", "concurrency"), ("gpu_ms_max", "GPU-hours")):
        was, now = getattr(old, field), getattr(new, field)
        if was is not None and (now is None or now > was):
            return f"raises its {what}"
    return ""


def _of_update(view: StateView, caller: Caller, command: UpdateOwner) -> str:
    owner = view.owners.get(command.name)
    if caller.role is not Role.TENANT_ADMIN or owner is None:
        return "only an admin changes tenants"
    if not sees_owner(view, caller, command.name):
        return f"tenant {command.name!r} is not yours"
    if command.parents is not None:
        return "parents: only an admin sets them"
    for field, value in command.quota:
        why = _of_quota(owner, owner.quota, field, value)
        if why:
            return why
    return ""


def _without_tenant(view: StateView, caller: Caller, command: Command) -> str:
    """Return why a caller without a tenant (accounting, auditor) may not give ``command``."""
    if caller.role is Role.AUDITOR:
        return "an auditor may not change anything; ask an admin"
    if not isinstance(command, UpdateOwner):
        return "an accounting system only sets limits of tenants that are linked to it"
    if command.name not in view.reports:
        return f"tenant {command.name!r} is not linked to an accounting system"
    if command.parents is not None:
        return "parents: only an admin sets them"
    others = [field for field, _ in command.quota if field not in _LIMITS]
    return f"{_CALLED[others[0]]}: only an admin sets it" if others else ""


def _of_quota(owner: Owner, quota: Quota, field: str, value: int | None) -> str:
    called = _CALLED[field]
    if field not in _LIMITS:
        return f"{called}: only an admin sets it"
    now = getattr(quota, field)
    if value is None or (now is not None and value > now):
        return f"{called}: only an admin may raise it; {owner.name!r} may only lower it"
    return ""
