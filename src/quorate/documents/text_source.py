"""Reads bytes or text into plain trees with line numbers; every document is read by this module.

Text that begins with ``{`` or ``[`` is read as JSON, by the fast reader of the standard library.
All other text is read as YAML 1.2. The result has only mappings, lists, strings, booleans, integers
and exact decimals: no YAML tag can construct an object.
"""

from __future__ import annotations

import re
from typing import Final

from quorate.documents.json_text import read_json
from quorate.documents.located_tree import SourceDocument, Unreadable

TEXT_CHARS_MAX: Final = 64 * 1024 * 1024
"""The maximal length of a text.

No fleet needs longer texts, and a text of this length is still read quickly.
"""

NO_DOCUMENTS: Final = Unreadable(
    message="the text has no documents",
    remedy="write at least one, with apiVersion, kind, metadata and spec",
)
"""What ``read_source`` returns for a text without documents."""
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_BOMS: Final = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def read_source(text: str | bytes) -> tuple[SourceDocument, ...] | Unreadable:
    """Return the documents of ``text`` in order, or why it cannot be read.

    Empty YAML documents, such as after a stray ``---``, are left out. Raises no exception for a
    faulty ``text``.
    """
    decoded = _decoded(text) if isinstance(text, bytes) else text
    if isinstance(decoded, Unreadable):
        return decoded
    decoded = decoded.removeprefix("\ufeff")
    if len(decoded) > TEXT_CHARS_MAX:
        return Unreadable(
            message=f"the text has {len(decoded)} characters, over {TEXT_CHARS_MAX}",
            remedy="split it into several files",
        )
    forbidden = _FORBIDDEN.search(decoded)
    if forbidden is not None:
        return _forbidden_character(decoded, forbidden.start())
    if decoded.lstrip()[:1] in ("{", "["):
        found = read_json(decoded)
    else:
        # The YAML parser is slow to import, and JSON and `--help` do not need it.
        from quorate.documents.yaml_text import read_yaml  # noqa: PLC0415

        found = read_yaml(decoded)
    if not isinstance(found, Unreadable) and not found:
        return NO_DOCUMENTS
    return found


def _decoded(data: bytes) -> str | Unreadable:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        read = data[: error.start].decode("utf-8")
        for mark, encoding in _BOMS:
            if data.startswith(mark):
                return Unreadable(
                    message=f"the text is {encoding}, not UTF-8", remedy="save it as UTF-8", line=1
                )
        return Unreadable(
            message=f"byte 0x{data[error.start]:02x} is not UTF-8",
            remedy="save the file as UTF-8",
            line=read.count("\n") + 1,
            column=len(read) - (read.rfind("\n") + 1) + 1,
        )


def _forbidden_character(text: str, offset: int) -> Unreadable:
    code = ord(text[offset])
    return Unreadable(
        message=f"character U+{code:04X} may not be in a document" + (" (NUL)" if not code else ""),
        remedy="remove it; is this a text file?",
        line=text.count("\n", 0, offset) + 1,
        column=offset - (text.rfind("\n", 0, offset) + 1) + 1,
    )
