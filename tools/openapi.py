"""Writes docs/reference/openapi.json from the table of operations: ``python -m tools.openapi``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.service.http.openapi import openapi_bytes

PAGE: Final = Path("docs/reference/openapi.json")


if __name__ == "__main__":
    PAGE.write_bytes(openapi_bytes())
