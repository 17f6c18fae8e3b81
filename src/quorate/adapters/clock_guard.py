"""The clock guard: it makes the service stop deciding when two clocks of the machine differ.

A decision gets its time from the wall clock, and the time in the ledger never runs back. If the
wall clock were 45 days ahead for only five seconds, leases and windows would end permanently. So
the guard compares the wall clock with the time since the machine was started (the steady clock). If
the two clocks differ by more than five minutes, the service stops deciding until an operator
accepts the new time. Until then, the guard's time is the last trusted time plus the time that the
steady clock has counted since. So reads and access tokens work as before (docs/adr/0029).

The file ``LEDGER.clock`` keeps the readings of both clocks from one start of the service to the
next. Within one boot of the machine the guard compares the stored readings with the present
readings. After a reboot, the guard can detect only one fault: the wall clock shows an earlier time
than the stored reading, or than the ledger's last event.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from threading import Lock
from typing import Annotated, Final

import msgspec

from quorate.documents.times import time_text
from quorate.model.amounts import TIME_MS_MAX, TIME_MS_MIN
from quorate.ports.clock_port import ClockStatus, Steady, SteadyClock

_LOG = logging.getLogger(__name__)

STEP_MS_MAX: Final = 5 * 60 * 1_000
"""The most by which the wall clock may differ from the steady clock."""
KEEP_MS: Final = 60_000
"""How often the readings of both clocks are stored for the next start of the service."""
ACCEPT: Final = "quorate admin clock accept"
_RECORD_BYTES_MAX: Final = 4_096


_Length = Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reading of both clocks.

    If deciding was stopped, ``step_ms`` is how far the wall clock was ahead of the trusted time
    (negative if behind, but never 0). Otherwise ``step_ms`` is 0. ``behind_ms`` is how far the wall
    clock was behind the ledger's last event when an operator accepted the wall clock.
    """

    wall_ms: Annotated[int, msgspec.Meta(ge=TIME_MS_MIN, le=TIME_MS_MAX)]
    boot: str
    steady_ms: _Length
    step_ms: Annotated[int, msgspec.Meta(ge=-TIME_MS_MAX, le=TIME_MS_MAX)] = 0
    behind_ms: _Length = 0


_DECODER: Final = msgspec.json.Decoder(_Record)
"""Reads a record. The bounds of the fields reject times that cannot be computed or shown."""


class ClockGuard:
    """Implements ``Clock`` and ``ClockControl``; keeps its record in a file beside ``ledger``."""

    def __init__(self, clock: SteadyClock, ledger: Path) -> None:
        self._clock = clock
        self._path = clock_path(ledger)
        self._lock = Lock()
        self._wall_ms = clock.now_ms()
        self._steady = clock.steady()
        self._why = ""
        self._behind_ms = 0
        self._ledger_ms = 0
        self._kept_ms: int | None = None

    def opened(self, ledger_ms: int) -> None:
        """Compare the wall clock with the stored record, and with the time of the last event."""
        record = self._read()
        wall_ms, steady = self._clock.now_ms(), self._clock.steady()
        with self._lock:
            self._ledger_ms = ledger_ms
            self._wall_ms, self._steady = wall_ms, steady
            if record is not None:
                self._behind_ms = record.behind_ms
                if steady.boot and record.boot == steady.boot:
                    self._wall_ms = record.wall_ms + steady.ms - record.steady_ms
                elif wall_ms < record.wall_ms - STEP_MS_MAX or record.step_ms:
                    self._wall_ms = max(record.wall_ms, wall_ms - record.step_ms)
                if record.step_ms:
                    self._stop(wall_ms, self._wall_ms, "the record of an earlier stop")
            if not self._why and wall_ms < ledger_ms - self._behind_ms - STEP_MS_MAX:
                self._wall_ms = ledger_ms
                self._stop(wall_ms, ledger_ms, "the ledger's last event")
        self.status()
        self.keep()

    def now_ms(self) -> int:
        """Return the wall clock's time while it is trusted, else the trusted time."""
        return self.status().trusted_ms

    def trouble(self) -> str:
        """Return why deciding has stopped; empty while the wall clock is trusted."""
        return self.status().why

    def status(self) -> ClockStatus:
        """Return the present status of the clocks; stop deciding if they differ too much."""
        wall_ms, steady = self._clock.now_ms(), self._clock.steady()
        with self._lock:
            expected_ms = self._wall_ms + steady.ms - self._steady.ms
            if not self._why and abs(wall_ms - expected_ms) > STEP_MS_MAX:
                self._stop(wall_ms, expected_ms, "the time since the machine was started")
            why = self._why
        return ClockStatus(
            wall_ms=wall_ms,
            trusted_ms=expected_ms if why else wall_ms,
            step_ms=wall_ms - expected_ms,
            why=why,
        )

    def accept(self, actor: str) -> ClockStatus:
        """Trust the wall clock as it is now."""
        wall_ms, steady = self._clock.now_ms(), self._clock.steady()
        with self._lock:
            was = self._why
            self._wall_ms, self._steady, self._why = wall_ms, steady, ""
            self._behind_ms = max(0, self._ledger_ms - wall_ms)
        if was:
            _LOG.warning(
                "%s accepted %s as the time; deciding continues", actor, time_text(wall_ms)
            )
        self._write(wall_ms, steady)
        return self.status()

    def keep(self, ledger_ms: int | None = None) -> None:
        """Store the readings of both clocks for the next start of the service, if that is due.

        ``ledger_ms`` is the time of the ledger's last event.
        """
        steady = self._clock.steady()
        if ledger_ms is not None:
            self._ledger_ms = ledger_ms
        if self._kept_ms is None or not 0 <= steady.ms - self._kept_ms < KEEP_MS:
            self._write(self.status().trusted_ms, steady)

    def _stop(self, wall_ms: int, expected_ms: int, by: str) -> None:
        """Stop trusting the wall clock from now on; the caller holds the lock."""
        way = "ahead of" if wall_ms > expected_ms else "behind"
        minutes = abs(wall_ms - expected_ms) / 60_000
        self._why = (
            f"the wall clock shows {time_text(wall_ms)}, {minutes:.0f} minutes {way} "
            f"{time_text(expected_ms)}, the time expected from {by}; correct the clock, then "
            f"accept its time with: {ACCEPT}"
        )
        self._kept_ms = None
        _LOG.error("deciding is stopped: %s", self._why)

    def _write(self, wall_ms: int, steady: Steady) -> None:
        """Store the readings; if that fails, the next start compares with older readings."""
        with self._lock:
            step_ms = self._clock.now_ms() - wall_ms if self._why else 0
            record = _Record(
                wall_ms, steady.boot, steady.ms, (step_ms or 1) if self._why else 0, self._behind_ms
            )
            self._kept_ms = steady.ms
        draft = self._path.with_name(f"{self._path.name}.new")
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(record))
            draft.replace(self._path)
        except OSError as error:
            _LOG.warning("%s could not be written: %s", self._path, error.strerror)

    def _read(self) -> _Record | None:
        try:
            with self._path.open("rb") as file:
                return _DECODER.decode(file.read(_RECORD_BYTES_MAX))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _LOG.warning(
                "%s cannot be read, so a clock step between the last two starts goes unnoticed: %s",
                self._path,
                error,
            )
            return None


def clock_path(ledger: Path) -> Path:
    """Return the path of the clock record beside ``ledger``."""
    return ledger.with_name(ledger.name + ".clock")
