"""Reads JSON with a fault for each error, and writes JSON that people can read."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from quorate.policy.files.file_faults import UNREADABLE, At


def encoded(tree: object) -> bytes:
    """Return ``tree`` as JSON, with one line for each value and a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(tree), indent=1) + b"\n"


def decoded(data: bytes, at: At) -> Any:
    """Return the JSON value in ``data``; ``UNREADABLE``, with a fault, if ``data`` is not JSON.

    Infinite numbers and NaN are accepted here; a later check reports them with their place. A key
    that an object has twice is a fault, because one of the values would be lost. Half of a
    surrogate pair in a text is a fault, because it cannot be printed.
    """

    def kept(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(entries)
        if len(found) < len(entries):
            keys = [key for key, _ in entries]
            for key in found:
                if keys.count(key) > 1:
                    at.below(key).fault("is given twice in one object", "remove one of the two")
        return found

    try:
        tree = json.loads(data.decode("utf-8"), object_pairs_hook=kept)
        if b"\\u" in data:
            json.dumps(tree, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        at.fault(f"is not JSON in UTF-8: {error}", "write one JSON value")
        return UNREADABLE
    return tree
