"""The version of documents that this program reads and writes."""

from __future__ import annotations

from typing import Final

API_VERSION: Final = "quorate.dev/v1"
