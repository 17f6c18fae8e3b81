"""Keeps the run whose folder is named."""

from __future__ import annotations

import sys
from pathlib import Path

from quorate.keeper.keeping import keep

sys.exit(keep(Path(sys.argv[1])))
