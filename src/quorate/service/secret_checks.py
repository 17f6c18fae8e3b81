"""Checks that the secrets beside a ledger fit the ledger, and says what fails without them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from quorate.adapters.key_file import key_path, load_key, load_lottery_secret, lottery_path
from quorate.adapters.lottery_seal import KeyFileSeal
from quorate.adapters.stores.store_urls import ledger_path, read_store
from quorate.ledger.checkpoint import public_key_of
from quorate.ledger.fold import replay
from quorate.loop.preimages import Preimages
from quorate.model.state.state_view import StateView
from quorate.ports.errors import KeyFileError

_UNSIGNED = "no checkpoint can be signed, and the record of the ledger's end is not signed"
_UNDRAWN = (
    "conflicts that need a draw stay open, so runs that wait for such a conflict do not start"
)


def trouble_with_secrets(url: str) -> list[str]:
    """Return a line for each missing or wrong secret beside the ledger at ``url``.

    The line says what fails without the right secret. Only the first block is read, because this
    block says which secrets the ledger needs.
    """
    with read_store(url) as store:
        state, _ = replay(islice(store.blocks(), 1))
    return secret_troubles(ledger_path(url), state)


def secret_troubles(path: Path, view: StateView) -> list[str]:
    """Return a line for each missing or wrong secret beside ``path``; ``view`` is the state."""
    found = [_key_trouble(key_path(path), view.public_key)]
    if view.lottery.commitment:
        trouble = (
            _seal_trouble(key_path(path), view)
            if view.lottery.sealed
            else _lottery_trouble(lottery_path(path), view)
        )
        found.append(trouble)
    return [each for each in found if each]


def _key_trouble(path: Path, public_key: str) -> str:
    if not path.exists():
        return (
            f"there is no signing key at {path}: {_UNSIGNED}; put a copy of the key there; its "
            f"public key is {public_key}"
        )
    try:
        key = load_key(path)
    except KeyFileError as error:
        return f"{error}: {_UNSIGNED}"
    if public_key_of(key).hex() == public_key:
        return ""
    return (
        f"{path} is not the key of this ledger: {_UNSIGNED}; put the right key there; its public "
        f"key is {public_key}"
    )


def _seal_trouble(key: Path, view: StateView) -> str:
    """Return the fault of the encrypted secret in the ledger; empty if it can be decrypted."""
    try:
        KeyFileSeal(key).open(view.lottery.sealed, view.lottery.commitment)
    except KeyFileError as error:
        return f"{error}: {_UNDRAWN}"
    return ""


def _lottery_trouble(path: Path, view: StateView) -> str:
    if not path.exists():
        return f"there is no lottery's secret at {path}: {_UNDRAWN}; put a copy of the secret there"
    try:
        secret = load_lottery_secret(path)
    except KeyFileError as error:
        return f"{error}: {_UNDRAWN}"
    if Preimages(secret, view.lottery.length).link(0).hex() == view.lottery.commitment:
        return ""
    return (
        f"{path} is not the lottery's secret of this ledger: {_UNDRAWN}; put the right secret there"
    )
