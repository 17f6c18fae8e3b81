"""All errors that ports, adapters and the ledger raise, as one tree.

    QuorateError
        ├── CorruptLedgerError      the stored bytes of a ledger have changed (ledger/errors.py)
    ├── NewerLedgerError        only a newer Quorate can read the ledger  (ledger/errors.py)
    │   └── UnknownEventError   an event's tag is not in this version     (ledger/errors.py)
    ├── CheckpointError         a text is not a checkpoint                (ledger/errors.py)
    ├── ArchiveError            archived runs cannot be read              (ledger/errors.py)
    ├── KeyFileError            the signing key cannot be used
    ├── WorkFolderError         the folder of local work cannot be used
    ├── ClusterError            a Kubernetes cluster did not carry out a request
        │   ├── ClusterAccessError  a kubeconfig or a credential cannot be used
    │   ├── ClusterDownError    the cluster cannot be reached, or does not answer in time
    │   └── ClusterRefusedError the cluster refused the request
    ├── GpusUnknownError        the GPUs of this machine are not known
        ├── DecidingStoppedError    nothing is decided until an operator acts
    ├── BlockTooLargeError      the events of a command do not fit into a block
    ├── OldTermError            an executor has accepted orders of a newer leader
    ├── AccountingError         an accounting system refused a report, or is unreadable
    │   └── AccountingDownError the system cannot be reached, or does not answer in time
    └── StoreError              the store could not carry out a request; nothing is recorded
        ├── StaleHeadError      another writer appended first
        ├── LedgerHeldError     another process is writing to the ledger
        ├── StoreUrlError       a URL names no store
        ├── LedgerNotFoundError there is no ledger at the path
        ├── LedgerExistsError   there is a file at the path of a new ledger
        ├── LedgerServedError   services still use the ledger
        ├── LedgerMovedError    the ledger was moved to another store
        ├── LedgerEmptyError    the ledger was created and has no event
        ├── NotALedgerError     the file is not a ledger
        ├── LedgerVersionError  the file has a newer layout
        ├── StoreFullError      the disk or a quota on it is full
        ├── StoreReadOnlyError  the file is not writable, or was opened for reading
        ├── StoreBusyError      another program has locked the file for too long
        ├── StoreDownError      the servers cannot be reached, or do not answer in time
        │   └── UnsureAppendError   a block was sent, and may or may not be recorded
        ├── StoreAccessError    the servers refuse this program's credentials
        ├── NotLeaderError      another program leads, or the lease of this one has run out
        ├── SegmentError        archived blocks are missing or damaged
        └── OutboxError         the file beside the ledger is no outbox, or is damaged

Stores also raise the errors of the ledger, because a damaged row of a store is handled like a
damaged block. Adapters raise no errors that are not in this tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quorate.ledger.chain import Block, Head
from quorate.ledger.errors import (
    ArchiveError,
    CheckpointError,
    CorruptLedgerError,
    NewerLedgerError,
    QuorateError,
    UnknownEventError,
)

__all__ = [
    "AccountingDownError",
    "AccountingError",
    "ArchiveError",
    "BlockTooLargeError",
    "CheckpointError",
    "ClusterAccessError",
    "ClusterDownError",
    "ClusterError",
    "ClusterRefusedError",
    "CorruptLedgerError",
    "DecidingStoppedError",
    "GpusUnknownError",
    "Holder",
    "KeyFileError",
    "LedgerEmptyError",
    "LedgerExistsError",
    "LedgerHeldError",
    "LedgerMovedError",
    "LedgerNotFoundError",
    "LedgerServedError",
    "LedgerVersionError",
    "NewerLedgerError",
    "NotALedgerError",
    "NotLeaderError",
    "OldTermError",
    "OutboxError",
    "QuorateError",
    "SegmentError",
    "StaleHeadError",
    "StoreAccessError",
    "StoreBusyError",
    "StoreDownError",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreUrlError",
    "UnknownEventError",
    "UnsureAppendError",
    "WorkFolderError",
]


class KeyFileError(QuorateError):
    """The file of the signing key is missing, unsafe or not a key."""


class WorkFolderError(QuorateError):
    """The folder of local work cannot be written, or belongs to another ledger or service."""


class ClusterError(QuorateError):
    """A Kubernetes cluster did not carry out a request; the text says which request, and why."""


class ClusterAccessError(ClusterError):
    """A kubeconfig or a credential cannot be used."""


class ClusterDownError(ClusterError):
    """The API server cannot be reached, or cannot answer now; a later request may succeed."""


class ClusterRefusedError(ClusterError):
    """The API server refused a request with an HTTP status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class GpusUnknownError(QuorateError):
    """The GPUs of this machine are unknown; the text says why."""


class DecidingStoppedError(QuorateError):
    """The service makes no decisions now; the text says why, and what to do. Reads continue."""

    def __init__(self, why: str) -> None:
        super().__init__(f"nothing is decided: {why}")


class BlockTooLargeError(QuorateError):
    """The events of one command do not fit into a block; nothing was recorded."""

    def __init__(self, *, events: int, size: int, size_max: int) -> None:
        super().__init__(
            f"the request has {events:,} events with {size:,} bytes in all, but a block of the "
            f"ledger takes at most {size_max:,}; nothing was recorded; send it in parts, each of "
            "which is "
            "recorded as a whole or not at all"
        )
        self.size = size


class OldTermError(QuorateError):
    """An executor refuses orders, because it has accepted orders of a newer term.

    The sender of the refused orders no longer leads.
    """

    def __init__(self, *, term: int, newest: int, remedy: str = "") -> None:
        super().__init__(
            f"orders of term {term} are refused: a leader of term {newest} has taken over"
            + (f"; {remedy}" if remedy else "")
        )
        self.term = term
        self.newest = newest


class AccountingError(QuorateError):
    """An accounting system did not accept a report, or its answer cannot be read."""


class AccountingDownError(AccountingError):
    """An accounting system cannot be reached, or did not answer in time; a retry may succeed."""


class StoreError(QuorateError):
    """The store could not carry out a request.

    A failed append has recorded nothing. The only exception is ``UnsureAppendError``.
    """


class StaleHeadError(StoreError):
    """The ledger is no longer at the head for which the decision was made; decide again.

    ``blocks`` are blocks after ``expected`` that the store returned together with the refusal. The
    store may return only some of the blocks up to ``actual``, or none.
    """

    def __init__(self, *, expected: Head, actual: Head, blocks: tuple[Block, ...] = ()) -> None:
        super().__init__(
            f"the ledger is at block {actual.height}, sequence {actual.seq}, not at block "
            f"{expected.height}, sequence {expected.seq}, for which the decision was made; decide "
            "again"
        )
        self.expected = expected
        self.actual = actual
        self.blocks = blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that writes to a ledger, as it describes itself."""

    pid: int
    command: str
    since: str


class LedgerHeldError(StoreError):
    """Another process has the ledger open for writing; ``holder`` is None if it is not known."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        who = (
            "another process"
            if holder is None
            else f"process {holder.pid} ({holder.command}, since {holder.since})"
        )
        super().__init__(
            f"{path} is open for writing in {who}; wait for it to finish or stop it. "
            "Reading is possible meanwhile"
        )
        self.path = path
        self.holder = holder


class StoreUrlError(StoreError):
    """A URL names no store; the text lists the kinds of URLs that do."""


class LedgerNotFoundError(StoreError):
    """There is no ledger at the path."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"there is no ledger at {path}; create one with: quorate init")
        self.path = path


class LedgerExistsError(StoreError):
    """A ledger was to be created at a path that already has a file."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} exists already and was left alone; choose another path")
        self.path = path


class LedgerServedError(StoreError):
    """A ledger must not change now, but services use it; ``services`` has their addresses."""

    def __init__(self, place: str, services: Mapping[str, str]) -> None:
        names = ", ".join(f"{name} ({address})" for name, address in sorted(services.items()))
        super().__init__(
            f"{place} is served by {names}: stop every service of this ledger, on every machine, "
            f"and try again; `quorate cluster members` lists them. The entry of a service that was "
            f"killed disappears after 10 seconds"
        )
        self.services = services


class LedgerMovedError(StoreError):
    """The ledger was moved to another store, and takes no more blocks."""

    def __init__(self, place: str, *, target: str, mark: str) -> None:
        super().__init__(
            f"{place} was moved to {target}, and takes no more blocks; nothing was recorded: use "
            f"{target}. To use this ledger again, and give up everything that was recorded there, "
            f"remove the key {mark} from etcd"
        )
        self.target = target


class LedgerEmptyError(StoreError):
    """The file is a ledger that has no event, because its creation was interrupted."""

    def __init__(self) -> None:
        super().__init__(
            "the ledger is empty, because its creation was interrupted; remove the file, then "
            "create it again: quorate init"
        )


class NotALedgerError(StoreError):
    """The file is not a Quorate ledger."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} is not a Quorate ledger: {what}")
        self.path = path


class LedgerVersionError(StoreError):
    """The file has a newer layout than this Quorate knows."""

    def __init__(self, path: Path | str, *, found: int, known: int) -> None:
        super().__init__(
            f"{path} has layout version {found}, this Quorate knows {known}; "
            "use the Quorate that wrote it, or a later one"
        )
        self.path = path
        self.found = found
        self.known = known


class StoreFullError(StoreError):
    """The disk, or a quota on the disk, is full."""


class StoreReadOnlyError(StoreError):
    """The file or its directory cannot be written, or the store was opened for reading."""


class StoreBusyError(StoreError):
    """Another program kept the file locked for too long."""


class StoreDownError(StoreError):
    """The servers of the store cannot be reached, have no quorum, or took too long to answer."""


class UnsureAppendError(StoreDownError):
    """A block was sent, and since then neither an answer nor the head could be read.

    The block may be recorded already, or a moment later, or never. The caller must read the head
    before it decides again.
    """

    def __init__(self, block: Head, why: str) -> None:
        super().__init__(
            f"block {block.height} was sent and may be recorded: {why}; check whether the "
            "request was carried out before it is sent again, or send it with the same idempotency "
            "key (Idempotency-Key)"
        )
        self.block = block


class StoreAccessError(StoreError):
    """The servers of the store refuse the user, the password or the certificate."""


class NotLeaderError(StoreError):
    """Only the leader may append, and this program does not lead now; nothing was recorded."""


class SegmentError(StoreError):
    """A segment of archived blocks cannot be read, or its bytes have changed."""


class OutboxError(StoreError):
    """The file that keeps the waiting deliveries cannot be used; the ledger is not affected."""
