"""Adds the fields that the document of a run may leave out: its name, its nonce and its user.

Random numbers are drawn here, outside of ``core``, so that decisions need none.
"""

from __future__ import annotations

import secrets
from collections.abc import Container
from typing import Final

from msgspec.structs import replace

from quorate.documents import Document
from quorate.model.specs import Run
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView

_NONCE_BYTES: Final = 16
_NAME_BYTES: Final = 4


def ready(
    document: Document, view: StateView, user: str, taken: set[str], *, for_others: bool = True
) -> Run:
    """Return the run of ``document``, with values for the name, nonce and user that it leaves out.

    Missing fields are taken from an existing run of the same name, so that applying a file twice
    changes nothing. If ``for_others`` is false, they are taken only from a run of ``user``.
    ``taken`` are the names that this request has used already; the new name is added.
    """
    run = document.spec
    assert isinstance(run, Run), document
    if document.generate_name is not None:
        name = _new_name(document.generate_name, view, taken)
        array = None if run.array is None else replace(run.array, name=name)
        run = replace(run, name=name, array=array)
    taken.add(run.name)
    known = _known(view, run.name)
    if known is not None and (for_others or known.spec.user == user):
        run = replace(run, nonce=run.nonce or known.spec.nonce, user=run.user or known.spec.user)
        if run == known.spec:
            # An unchanged run keeps an empty user, as the run of a Kubernetes Job has.
            return run
    return replace(run, nonce=run.nonce or secrets.token_hex(_NONCE_BYTES), user=run.user or user)


def _known(view: StateView, name: str) -> RunRecord | None:
    """Return the run ``name``, or the first task of the array ``name``; None if neither exists."""
    array = view.arrays.get(name)
    found: RunRecord | None = view.runs.get(name if array is None else array.first)
    return found


def _new_name(prefix: str, view: StateView, taken: Container[str]) -> str:
    while True:
        name = prefix + secrets.token_hex(_NAME_BYTES)
        if name not in view.runs and name not in view.arrays and name not in taken:
            return name
