"""The version of Quorate, also available as ``quorate.__version__``."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
