"""Issues, lists and revokes access tokens, and shows the caller's identity.

A token is ``qt_ID_SECRET``. The ledger has the id, and a digest of the secret. The secret itself is
shown only once, to the caller that issues the token, and cannot be recovered later.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from quorate.core.commands import IssueToken, RevokeToken
from quorate.documents.field_reader import At, Fault
from quorate.documents.times import duration, time_text
from quorate.model.state.records import TokenRecord
from quorate.operations import common_requests
from quorate.operations.answer_types import Answer, Order
from quorate.operations.caller import CLAIM, Role
from quorate.operations.operation import Operation
from quorate.operations.request_context import CallerContext, RequestContext
from quorate.operations.resources.list_pages import page
from quorate.operations.service import service_operations
from quorate.operations.visibility import knows_token, seen_by
from quorate.views.exits import CommandError, Exit
from quorate.views.redaction.redaction import Redaction
from quorate.views.runs.instant import Moment
from quorate.views.table import Column, pairs, table, wide

PREFIX: Final = "qt"
_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32
_LIFETIME_MS_MIN: Final = 60_000
NEVER: Final = "never"
_COLUMNS: Final = (
    Column("TOKEN"),
    Column("ROLE"),
    Column("TENANT"),
    Column("USER"),
    Column("STATE"),
    Column("EXPIRES"),
    wide("SCOPES"),
    wide("ISSUED"),
    wide("BY"),
    wide("NOTE"),
)


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret of a new token, for the token's holder. Only ``digest`` is recorded."""

    token: str
    secret: str

    @classmethod
    def draw(cls) -> Secret:
        """Return a secret that cannot be guessed."""
        return cls(secrets.token_hex(_ID_BYTES), secrets.token_hex(_SECRET_BYTES))

    @property
    def digest(self) -> str:
        """The digest that the ledger records."""
        return digest_of(self.secret)

    @property
    def text(self) -> str:
        """The token, as the holder sends it with every request."""
        return f"{PREFIX}_{self.token}_{self.secret}"

    def lines(self, moment: Moment) -> list[str]:
        """Return the token for people. It is not shown again."""
        del moment
        return [self.text, "keep the token: it is not shown again"]

    def tree(self, moment: Moment) -> dict[str, Any]:
        """Return the token for programs. It is not shown again."""
        issued = token_tree(moment.view.tokens[self.token], moment.redaction)
        return {"token": issued | {"secret": self.text}}


def digest_of(secret: str) -> str:
    """Return the digest of ``secret``, as the ledger records it."""
    return sha256(secret.encode()).hexdigest()


def issue_token(
    context: RequestContext, asked: service_operations.IssueToken, operation: Operation
) -> Order:
    """Return the order to issue a token; its secret is in the answer."""
    del operation
    new = Secret.draw()
    caller, expires_ms = context.caller, _expiry_ms(asked.lifetime, context.now_ms)
    notes: tuple[str, ...] = ()
    if caller.role is not Role.ADMIN and _outlives(expires_ms, caller.until_ms):
        # Otherwise the holder of a temporary token could issue tokens, and so keep its rights for
        # ever.
        expires_ms = caller.until_ms
        assert expires_ms is not None, caller
        notes = (f"note: it expires together with your own token, at {time_text(expires_ms)}",)
    command = IssueToken(
        token=new.token,
        digest=new.digest,
        role=asked.role.value,
        tenant=asked.tenant,
        user=asked.user,
        scopes=tuple(sorted({scope.value for scope in asked.scopes})),
        expires_ms=expires_ms,
        note=asked.note,
    )
    # A token of a dry run is not valid, so its secret is not shown.
    return Order(command=command, aside=None if asked.dry_run else new, notes=notes)


def _outlives(expires_ms: int | None, until_ms: int | None) -> bool:
    return until_ms is not None and (expires_ms is None or expires_ms > until_ms)


def _expiry_ms(lifetime: str, now_ms: int) -> int | None:
    if lifetime == NEVER:
        return None
    faults: list[Fault] = []
    found = duration(low_ms=_LIFETIME_MS_MIN)(lifetime, At(("lifetime",), faults))
    if found is None:
        raise CommandError(
            Exit.INVALID, *(f"lifetime: {each.message}; {each.remedy}" for each in faults)
        )
    return now_ms + found


def revoke_token(
    context: RequestContext, asked: service_operations.RevokeToken, operation: Operation
) -> Order:
    """Return the order to revoke a token."""
    del context, operation
    name = asked.token
    # A caller may give the whole token instead of its id, and the secret in it must not be printed.
    if name.startswith(f"{PREFIX}_"):
        name = name.split("_")[1]
    return Order(
        command=RevokeToken(name, asked.note), unchanged=f"token/{name} is revoked already"
    )


def list_tokens(
    context: RequestContext, asked: service_operations.ListTokens, operation: Operation
) -> Answer:
    """Return the tokens that the caller may see, without their secrets."""
    del operation
    view = context.recorded
    names = [
        name
        for name, known in view.tokens.items()
        if knows_token(view, context.caller, known) and _fits(asked, known)
    ]
    names, more = page(names, asked.limit, asked.cursor)
    found = [view.tokens[name] for name in names]
    now_ms, redaction = context.now_ms, Redaction(view, seen_by(view, context.caller))
    return Answer(
        tree=lambda: (
            {"items": [token_tree(each, redaction) for each in found]}
            | ({"next": more} if more else {})
        ),
        lines=lambda is_wide: [_table(found, now_ms, redaction, is_wide=is_wide)] if found else [],
        notes=() if found else ("no access tokens",),
    )


def _fits(asked: service_operations.ListTokens, record: TokenRecord) -> bool:
    issued = record.issued
    return (asked.tenant is None or issued.tenant == asked.tenant) and (
        asked.user is None or issued.user == asked.user
    )


def token_tree(record: TokenRecord, redaction: Redaction) -> dict[str, Any]:
    """Return a token for programs; hide an issuer whose tenant the caller may not see."""
    issued = record.issued
    return {
        "id": issued.token,
        "role": issued.role.value,
        "tenant": issued.tenant,
        "user": issued.user,
        "scopes": list(issued.scopes),
        "expires": None if issued.expires_ms is None else time_text(issued.expires_ms),
        "revoked": None if record.revoked_ms is None else time_text(record.revoked_ms),
        "issued": time_text(issued.at_ms),
        "issuedBy": redaction.actor(issued.actor),
        "note": issued.note,
    }


def _table(
    records: Sequence[TokenRecord], now_ms: int, redaction: Redaction, *, is_wide: bool
) -> str:
    rows = [
        [
            each.issued.token,
            each.issued.role.value,
            each.issued.tenant or "-",
            each.issued.user,
            _state(each, now_ms),
            "-" if each.issued.expires_ms is None else time_text(each.issued.expires_ms),
            _scopes_text(each.issued.scopes),
            time_text(each.issued.at_ms),
            redaction.actor(each.issued.actor),
            each.issued.note,
        ]
        for each in records
    ]
    return table(_COLUMNS, rows, show_wide=is_wide)


def _scopes_text(scopes: Sequence[str]) -> str:
    """Return the scopes of a token as text: its areas, or all areas, and its added rights."""
    areas = [scope for scope in scopes if scope != CLAIM]
    return ",".join([*(areas or ["all"]), *([CLAIM] if CLAIM in scopes else [])])


def _state(record: TokenRecord, now_ms: int) -> str:
    if record.revoked_ms is not None:
        return "revoked"
    expires_ms = record.issued.expires_ms
    return "expired" if expires_ms is not None and expires_ms <= now_ms else "active"


def whoami(
    context: RequestContext | CallerContext, asked: common_requests.Nothing, operation: Operation
) -> Answer:
    """Return the caller, as the service knows it."""
    del asked, operation
    caller = context.caller
    tenants = sorted(context.tenants.seen_by(caller))
    tree = {
        "user": caller.user,
        "role": caller.role.value,
        "tenant": caller.tenant,
        "scopes": sorted(caller.scopes),
        "tenants": tenants,
    }
    lines = pairs(
        [
            ("User", caller.user),
            ("Role", caller.role.value),
            ("Tenant", caller.tenant or "-"),
            ("Areas", ", ".join(sorted(caller.areas)) or "all"),
            ("Claims", "may claim nodes" if caller.may_claim else "no: needs the scope claim"),
            ("Sees", "everything" if caller.oversees else ", ".join(tenants) or "the fleet only"),
        ]
    )
    return Answer(tree=lambda: tree, lines=lambda _: [lines])
