"""The built files of the dashboard, ready to be sent: read once, compressed once."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

PAGE: Final = "index.html"
BASE: Final = b"{{base}}"
"""Where the page says what its links are relative to."""
VERSION: Final = b"{{version}}"
"""Where the page says which version of its files it needs."""
MEDIA: Final = {
    "app.css": b"text/css; charset=utf-8",
    "app.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
"""The files that the page asks for, and what each is."""
_TAG_CHARS: Final = 16


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes as they are sent, plain and compressed, and their entity tag."""

    plain: bytes
    packed: bytes
    etag: str

    @classmethod
    def of(cls, plain: bytes) -> Sent:
        """Return ``plain`` with its compressed form, which is the same at each start."""
        return cls(plain, gzip.compress(plain, 9, mtime=0), tag_of(plain))


def tag_of(content: bytes) -> str:
    """Return what identifies ``content`` among all versions of a file."""
    return sha256(content).hexdigest()[:_TAG_CHARS]


@dataclass(frozen=True, slots=True)
class BuiltFiles:
    """The dashboard: ``files`` by name, and ``version``, which changes with any of them."""

    version: str
    files: Mapping[str, Sent]
    template: bytes

    def page(self, depth: int) -> Sent:
        """Return the page for an address of ``depth`` segments.

        Its links are relative, so that it works under whatever prefix a proxy puts before it.
        """
        base = b"../" * (depth - 1) if depth > 1 else b"./"
        return _page(self.template.replace(BASE, base).replace(VERSION, self.version.encode()))


@cache
def _page(content: bytes) -> Sent:
    return Sent.of(content)


@cache
def built_files() -> BuiltFiles:
    """Return what was built; a file that is missing was left out of the package, a bug."""
    folder = files(__package__) / "built"
    contents = {name: (folder / name).read_bytes() for name in MEDIA}
    template = (folder / PAGE).read_bytes()
    return BuiltFiles(
        version=tag_of(b"".join([template, *contents.values()])),
        files={name: Sent.of(content) for name, content in contents.items()},
        template=template,
    )
