"""What operations on access tokens take."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from quorate.operations.caller import Role
from quorate.operations.common_requests import PAGE_MAX, Asked, Name, Note, Nothing, Write
from quorate.operations.operation import Scope

__all__ = ["IssueToken", "ListTokens", "Nothing", "RevokeToken"]

LIFETIME_DEFAULT: Final = "90d"
User = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]+$")]


class IssueToken(Write, kw_only=True, frozen=True):
    """For ``user``, in ``role``, and in ``tenant`` where the role needs one.

    ``lifetime`` is a duration such as ``90d``, or ``never``. With areas among ``scopes`` it is for
    those areas only. The scope ``claim`` is no area: it adds the right to claim nodes.
    """

    role: Role
    user: User
    tenant: Annotated[str, Meta(max_length=253)] = ""
    scopes: Annotated[tuple[Scope, ...], Meta(max_length=len(Scope))] = ()
    lifetime: Annotated[str, Meta(min_length=1, max_length=40)] = LIFETIME_DEFAULT
    note: Note = ""


class ListTokens(Asked, kw_only=True, frozen=True):
    """Those of one tenant or user where one is given; a page of them."""

    tenant: Name | None = None
    user: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] | None = None
    cursor: Annotated[str, Meta(max_length=600)] | None = None


class RevokeToken(Write, kw_only=True, frozen=True):
    """The token, by its id, and why."""

    token: Name
    note: Note = ""
