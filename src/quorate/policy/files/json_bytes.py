"""JSON of files: read so that every fault can be named, and written so that people can read it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from quorate.policy.files.file_faults import UNREADABLE, At


def encoded(tree: object) -> bytes:
    """Return ``tree`` as JSON, a line for each value, with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(tree), indent=1) + b"\n"


def decoded(data: bytes, at: At) -> Any:
    """Return the JSON of ``data``; ``UNREADABLE``, with a fault, if it is none.

    Numbers that are not finite are accepted here, so that a later fault can name their place. A key
    that is given twice would lose one of its values, and is a fault; so is half of a character,
    which cannot be printed.
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
