"""What the client adds to a run before it is submitted: a name, a nonce, its user.

Chance enters here, at the edge, so that deciding needs none.
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
    """Return the run of ``document`` with everything it left to the client.

    A run that is there already under its name lends what is left out, so that applying the same
    file twice changes nothing; unless ``for_others`` only one of ``user``'s own. ``taken`` are
    names given away in the same breath; it grows.
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
            return run  # Also one that no user has submitted, such as that of a Job.
    return replace(run, nonce=run.nonce or secrets.token_hex(_NONCE_BYTES), user=run.user or user)


def _known(view: StateView, name: str) -> RunRecord | None:
    """Return the run ``name``, or the first task of the array ``name``; None: there is neither."""
    array = view.arrays.get(name)
    found: RunRecord | None = view.runs.get(name if array is None else array.first)
    return found


def _new_name(prefix: str, view: StateView, taken: Container[str]) -> str:
    while True:
        name = prefix + secrets.token_hex(_NAME_BYTES)
        if name not in view.runs and name not in view.arrays and name not in taken:
            return name
