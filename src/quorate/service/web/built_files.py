"""The built files of the dashboard, ready to send: read once, compressed once."""

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
"""The placeholder for the base of the page's relative links."""
VERSION: Final = b"{{version}}"
"""The placeholder for the version of the files that the page needs."""
MEDIA: Final = {
    "app.css": b"text/css; charset=utf-8",
    "app.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
"""The files that the page loads, and their media types."""
_TAG_CHARS: Final = 16


@dataclass(frozen=True, slots=True)
class Sent:
    """The bytes of a file, plain and compressed, and their entity tag."""

    plain: bytes
    packed: bytes
    etag: str

    @classmethod
    def of(cls, plain: bytes) -> Sent:
        """Return ``plain`` with its compressed form, which is the same at each start."""
        return cls(plain, gzip.compress(plain, 9, mtime=0), tag_of(plain))


def tag_of(content: bytes) -> str:
    """Return the tag that identifies ``content`` among all versions of a file."""
    return sha256(content).hexdigest()[:_TAG_CHARS]


@dataclass(frozen=True, slots=True)
class BuiltFiles:
    """The dashboard: ``files`` by name, and ``version``, which changes if any file changes."""

    version: str
    files: Mapping[str, Sent]
    template: bytes

    def page(self, depth: int) -> Sent:
        """Return the page for an address of ``depth`` segments.

        The links of the page are relative, so that they work under any prefix of a proxy.
        """
        base = b"../" * (depth - 1) if depth > 1 else b"./"
        return _page(self.template.replace(BASE, base).replace(VERSION, self.version.encode()))


@cache
def _page(content: bytes) -> Sent:
    return Sent.of(content)


@cache
def built_files() -> BuiltFiles:
    """Return the built files; a missing file was left out of the package, which is a bug."""
    folder = files(__package__) / "built"
    contents = {name: (folder / name).read_bytes() for name in MEDIA}
    template = (folder / PAGE).read_bytes()
    return BuiltFiles(
        version=tag_of(b"".join([template, *contents.values()])),
        files={name: Sent.of(content) for name, content in contents.items()},
        template=template,
    )
