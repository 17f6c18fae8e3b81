"""A resource of any kind, and lists of them."""

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
"""A number; a Decimal where a float would lose digits."""
SpecT = TypeVar("SpecT", bound=Fields)
StatusT = TypeVar("StatusT", bound=Fields)
ResourceT = TypeVar("ResourceT")


class Metadata(Fields):
    """What a resource is called."""

    name: str
    labels: Mapping[str, str]


class NoSpec(Fields):
    """The spec of a resource that Quorate makes and no document declares."""


class _Absent(Fields):
    """Spec or status of an answer that has several resources in ``items``, or lacks that part."""

    def __getattr__(self, name: str) -> NoReturn:
        raise MissingFieldError(
            f"{name}: the answer has no such part; where several resources begin with the name "
            "that was asked for they are in .items: ask by the whole name, or read those"
        )


def _absent() -> Any:
    return _Absent()


class Resource(Given, Generic[SpecT, StatusT], kw_only=True, frozen=True):
    """A resource: what was declared as ``spec``, what became of it as ``status``.

    Where several begin with the name that was asked for, ``kind`` is List and they are ``items``.
    """

    api_version: str
    kind: str
    metadata: Metadata = field(default_factory=Metadata)
    spec: SpecT = field(default_factory=_absent)
    status: StatusT = field(default_factory=_absent)
    items: tuple[Resource[SpecT, StatusT], ...] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it."""
        return table_of(self.items or [self])


class ResourceList(Given, Generic[ResourceT], kw_only=True, frozen=True):
    """Resources in order; ask for more with ``next`` as ``cursor``. It is None on the last page."""

    api_version: str
    kind: str
    items: tuple[ResourceT, ...]
    next: str | None = None

    def __iter__(self) -> Iterator[ResourceT]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it."""
        return table_of(self.items, has_more=self.next is not None)


class TokenList(Given, kw_only=True, frozen=True):
    """Access tokens in order; ask for more with ``next`` as ``cursor``. It is None on the last."""

    items: tuple[Token, ...]
    next: str | None = None
