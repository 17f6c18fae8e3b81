"""A resource of any kind, and lists of resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Generic, NoReturn, TypeVar

from msgspec import field

from quorate.client.answer_fields import Fields
from quorate.client.errors import MissingFieldError
from quorate.client.resources.notebook_html import table_of
from quorate.operations.common_responses import Given
from quorate.operations.service.service_operations import Token

Number = int | float | Decimal
"""A number; a Decimal if a float would lose digits."""
SpecT = TypeVar("SpecT", bound=Fields)
StatusT = TypeVar("StatusT", bound=Fields)
ResourceT = TypeVar("ResourceT")


class Metadata(Fields):
    """The name of a resource."""

    name: str
    labels: Mapping[str, str]


class NoSpec(Fields):
    """The empty spec of a resource that Quorate makes and that no document declares."""


class _Absent(Fields):
    """Replaces the spec or status of an answer that lacks this part, or has several ``items``."""

    def __getattr__(self, name: str) -> NoReturn:
        raise MissingFieldError(
            f"{name}: the answer has no such field; if the requested name is the beginning of the "
            "names of several resources, these are in .items: give the whole name, or read .items"
        )


def _absent() -> Any:
    return _Absent()


class Resource(Given, Generic[SpecT, StatusT], kw_only=True, frozen=True):
    """A resource: ``spec`` is what was declared, ``status`` is its current state.

    If the names of several resources begin with the requested name, ``kind`` is List, and ``items``
    has these resources.
    """

    api_version: str
    kind: str
    metadata: Metadata = field(default_factory=Metadata)
    spec: SpecT = field(default_factory=_absent)
    status: StatusT = field(default_factory=_absent)
    items: tuple[Resource[SpecT, StatusT], ...] = ()

    @property
    def name(self) -> str:
        """The name of the resource."""
        return self.metadata.name

    def _repr_html_(self) -> str:
        """Return the resource as HTML for a notebook."""
        return table_of(self.items or [self])


class ResourceList(Given, Generic[ResourceT], kw_only=True, frozen=True):
    """A page of resources. Pass ``next`` as ``cursor`` to get the next page.

    On the last page, ``next`` is None.
    """

    api_version: str
    kind: str
    items: tuple[ResourceT, ...]
    next: str | None = None

    def __iter__(self) -> Iterator[ResourceT]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def _repr_html_(self) -> str:
        """Return the page as HTML for a notebook."""
        return table_of(self.items, has_more=self.next is not None)


class TokenList(Given, kw_only=True, frozen=True):
    """A page of access tokens. Pass ``next`` as ``cursor`` to get the next page."""

    items: tuple[Token, ...]
    next: str | None = None
