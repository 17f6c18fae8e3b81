"""The log of the service, on standard error: as text, or one JSON object per line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from quorate.service.log_stream import StreamLog
from quorate.service.request_log import Handled

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class JsonFormatter(logging.Formatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return ``record`` as one line."""
        tree: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        found = getattr(record, "handled", None)
        if isinstance(found, Handled):
            tree |= _fields(found)
        tree |= getattr(record, "fields", {})
        if record.exc_info:
            tree["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(tree).decode()


class TextFormatter(logging.Formatter):
    """One line for each record, and below the line a traceback if the record has one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return ``record`` as text."""
        text = record.getMessage()
        found = getattr(record, "handled", None)
        if isinstance(found, Handled):
            text = _pairs(_fields(found))
        more = getattr(record, "fields", None)
        if more:
            plain = {name: _plain(value) for name, value in more.items()}
            text = f"{text} {_pairs(plain)}"
        line = f"{_time(record)} {record.levelname.lower():7} {_printable(text)}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _pairs(fields: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())


def _plain(value: object) -> str:
    """Return a value of a record as text: in JSON, unless it is text already."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, tz=UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(found: Handled) -> dict[str, Any]:
    """Return the logged fields of a request, without its content, which may be secret."""
    return {
        "request": found.request_id,
        "method": found.method,
        "path": found.path,
        "operation": found.operation or "-",
        "caller": found.caller or "-",
        "status": found.status,
        "ms": round(found.took_s * 1_000, 1),
    }


def _printable(text: str) -> str:
    """Return ``text`` on one line: a client must not be able to forge log lines."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


@contextmanager
def logged(form: str, level: str) -> Iterator[None]:
    """Log everything from ``level`` on in ``form`` until the ``with`` block ends."""
    # A service that was started without standard error has no place for a log.
    handler = logging.NullHandler() if sys.stderr is None else StreamLog(sys.stderr.fileno())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    # The service's own messages replace those of the HTTP server, and those of its HTTP client.
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "httpx"):
        logging.getLogger(name).setLevel(max(_LEVELS[level], logging.WARNING))
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
