"""The base class of every declared value: immutable, and stored by field name."""

from __future__ import annotations

from msgspec import Struct


class Spec(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """A declared value: immutable, stored by field name, defaults left out."""
