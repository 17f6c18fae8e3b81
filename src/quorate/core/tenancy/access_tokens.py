"""Access tokens: how they are issued and revoked.

If a tenant is removed, its tokens are revoked. The ledger has the public id of a token and the
digest of its secret, so a reader of the ledger learns no secret. Who may issue which token is not
decided here, but by the permissions of operations.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.core.commands import Change, Decision, IssueToken, RevokeToken
from quorate.core.decision_log import DecisionLog
from quorate.model.events import TokenIssued, TokenRevoked, TokenRole
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.state_view import StateView

KIND = "Token"
"""The kind of resource under which a token is listed in the changes of a decision."""
_OF_TENANTS = frozenset((TokenRole.TENANT_ADMIN, TokenRole.USER))


def issue_token(log: DecisionLog, command: IssueToken) -> Decision:
    """Write a new token, or return a refusal for every fault of the request."""
    refusals = tuple(_wrong(log.view, command, log.now_ms))
    if refusals:
        return Decision(refusals=refusals)
    log.write(
        TokenIssued(
            at_ms=log.now_ms,
            actor=log.actor,
            token=command.token,
            digest=command.digest,
            role=TokenRole(command.role),
            tenant=command.tenant,
            user=command.user,
            scopes=command.scopes,
            expires_ms=command.expires_ms,
            note=command.note,
        )
    )
    return Decision(changes=((KIND, command.token, Change.CREATED),))


def _wrong(view: StateView, command: IssueToken, now_ms: int) -> Iterator[Refusal]:
    if command.token in view.tokens:
        yield Refusal(
            code=RefusalCode.ALREADY_EXISTS,
            subject=f"there is a token {command.token!r} already",
            remedy="choose another id: an id is never used twice",
        )
    if command.role not in {role.value for role in TokenRole}:
        roles = ", ".join(role.value for role in TokenRole)
        yield _invalid(f"role: there is no role {command.role!r}", f"choose one of {roles}")
    elif command.role in _OF_TENANTS and not command.tenant:
        yield _invalid(
            f"tenant: the role {command.role} needs a tenant", "name the tenant of the token"
        )
    elif command.role not in _OF_TENANTS and command.tenant:
        yield _invalid(
            f"tenant: the role {command.role} belongs to no tenant, but {command.tenant!r} was "
            "given",
            f"leave the tenant out, or choose the role {TokenRole.TENANT_ADMIN.value}",
        )
    if command.role not in _OF_TENANTS and "/" in command.user:
        yield _invalid(
            f"user: {command.user!r} looks like a user of the tenant "
            f"{command.user.partition('/')[0]!r}, but the role {command.role} belongs to no tenant",
            "choose a name without a slash: events record users of a tenant as TENANT/USER",
        )
    if command.tenant and command.tenant not in view.owners:
        yield Refusal(
            code=RefusalCode.UNKNOWN_NAME,
            subject=f"there is no owner {command.tenant!r}",
            remedy="list them: quorate admin tenant list",
        )
    if command.expires_ms is not None and command.expires_ms <= now_ms:
        yield _invalid("expiry: it lies in the past", "choose a later time, or none")


def _invalid(subject: str, remedy: str) -> Refusal:
    return Refusal(code=RefusalCode.INVALID, subject=subject, remedy=remedy)


def revoke_token(log: DecisionLog, command: RevokeToken) -> Decision:
    """Write that a token is revoked; change nothing if it was revoked before."""
    name = command.token
    token = log.view.tokens.get(name)
    if token is None:
        refusal = Refusal(
            code=RefusalCode.UNKNOWN_NAME,
            subject=f"there is no token {name!r}",
            remedy="give the id of the token, which is not its secret",
        )
        return Decision(refusals=(refusal,))
    if token.revoked_ms is not None:
        return Decision(changes=((KIND, name, Change.UNCHANGED),))
    _revoke(log, name, command.note)
    return Decision(changes=((KIND, name, Change.REMOVED),))


def revoke_of_tenant(log: DecisionLog, tenant: str) -> tuple[str, ...]:
    """Write that every valid token of ``tenant`` is revoked, and return the ids of these tokens."""
    found = tuple(
        name
        for name, known in log.view.tokens.items()
        if known.issued.tenant == tenant and known.revoked_ms is None
    )
    for name in found:
        _revoke(log, name, f"its tenant {tenant} was removed")
    return found


def _revoke(log: DecisionLog, token: str, note: str) -> None:
    log.write(TokenRevoked(at_ms=log.now_ms, actor=log.actor, token=token, note=note))
