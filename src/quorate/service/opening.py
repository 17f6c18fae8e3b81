"""Opens a ledger for the service: verifies it, and ensures that there is a valid admin token."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, Protocol

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.key_file import key_path, load_lottery_secret, lottery_path
from quorate.adapters.lottery_seal import KeyFileSeal
from quorate.adapters.stores import store_urls
from quorate.adapters.takeover import TAKEOVER_S
from quorate.core.commands import IssueToken
from quorate.ledger.chain import GENESIS, Broken, open_block, verify_blocks
from quorate.ledger.errors import RESTORE
from quorate.loop.engine import Engine
from quorate.model.events import LedgerOpened, TokenRole
from quorate.model.specs import Discipline
from quorate.operations.service.token_handlers import Secret
from quorate.policy.parts import install_text, missing_part
from quorate.ports.clock_port import Clock
from quorate.ports.errors import CorruptLedgerError
from quorate.ports.executor_port import ServedExecutor
from quorate.ports.store_port import EventStore
from quorate.service.secret_checks import secret_troubles
from quorate.views.exits import CommandError, Exit

_LOG = logging.getLogger(__name__)

ACTOR: Final = "quorate-serve"
"""The actor that issues the first token."""
FIRST_USER: Final = "admin"
LOOK: Final = "inspect it with: quorate ledger verify"


class OpenStore(Protocol):
    """Opens the store of a ledger; retries for ``wait_s`` while another process writes to it."""

    def __call__(self, url: str, /, *, wait_s: float) -> EventStore:
        """Return the store; raises ``StoreError``."""
        ...


def _opened(
    url: str,
    executor: ServedExecutor | None,
    open_store: OpenStore,
    clock: Clock,
) -> Engine:
    path = store_urls.ledger_path(url)
    store = open_store(url, wait_s=TAKEOVER_S)
    try:
        _verify(path, store)
        if executor is not None:
            executor.belong_to(_ledger_id(store))
        lottery = lottery_path(path)
        secret = load_lottery_secret(lottery) if lottery.exists() else None
        engine = Engine.open(
            store,
            clock,
            executor=executor,
            lottery_secret=secret,
            lottery_seal=KeyFileSeal(key_path(path)),
        )
        engine.write_snapshots_beside()
        _check_parts(path, engine)
        for line in secret_troubles(path, engine.view):
            _LOG.warning("%s", line)
    except BaseException:
        store.close()
        raise
    return engine


def _check_parts(path: Path, engine: Engine) -> None:
    """Raise ``CommandError`` if a pool uses rounds, but the packages for rounds are missing."""
    shared = [p.name for p in engine.view.pools.values() if p.discipline is Discipline.ROUNDS]
    missing = missing_part() if shared else None
    if missing is not None:
        text = f"{path}: pool {shared[0]!r} uses rounds, but {install_text(missing)}"
        raise CommandError(Exit.UNUSABLE, text)


def _ledger_id(store: EventStore) -> str:
    """Return the ledger's id, from its first event; empty if the ledger has no events."""
    for block in store.blocks():
        (opened, *_) = open_block(block, after=GENESIS)
        assert isinstance(opened, LedgerOpened), opened
        return opened.ledger_id
    return ""


def _verify(path: Path, store: EventStore) -> None:
    """Verify the blocks that the store has not verified itself.

    Raises ``CommandError`` at the first block that is damaged.
    """
    vouched = store.verified_head()
    found = verify_blocks(store.blocks(from_height=vouched.height + 1), after=vouched)
    if isinstance(found, Broken):
        raise CommandError(
            Exit.UNSOUND,
            f"{path} does not verify: block {found.height}, sequence {found.seq}: {found.what}; "
            f"events before sequence {found.seq} are valid; {LOOK}; {RESTORE}",
        )


def open_ledger(
    url: str,
    executor: ServedExecutor | None,
    open_store: OpenStore = store_urls.open_store,
    clock: Clock | None = None,
) -> Engine:
    """Verify the blocks of the ledger at ``url``, and return its engine.

    Blocks are not verified again if the store has verified them before, when it archived them.

    ``executor`` works for this ledger from then on. Raises ``CommandError`` with the remedy if the
    ledger does not verify. Also raises the errors of opening a store, and ``WorkFolderError``.
    """
    try:
        return _opened(url, executor, open_store, clock or SystemClock())
    except CorruptLedgerError as error:
        path, sound = store_urls.ledger_path(url), store_urls.sound_head_at(url)
        raise CommandError(
            Exit.UNSOUND,
            f"{path} does not verify: {error.what}; events up to sequence {sound.seq} are valid; "
            f"{LOOK}; {error.remedy}",
        ) from None


def first_token(engine: Engine) -> str | None:
    """Issue an admin token and return its text; if there is a valid one already, return None.

    Only the digest of the token is recorded.
    """
    now_ms = engine.now_ms()
    for record in engine.view.tokens.values():
        issued = record.issued
        is_live = issued.expires_ms is None or issued.expires_ms > now_ms
        if issued.role is TokenRole.ADMIN and record.revoked_ms is None and is_live:
            return None
    new = Secret.draw()
    command = IssueToken(
        token=new.token,
        digest=new.digest,
        role=TokenRole.ADMIN.value,
        tenant="",
        user=FIRST_USER,
        note="the first one, printed by quorate serve",
    )
    receipt = engine.execute(command, actor=ACTOR)
    assert not receipt.decision.refusals, receipt
    return new.text
