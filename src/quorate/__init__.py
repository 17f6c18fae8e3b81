"""Quorate: a GPU-fleet scheduler and quota system.

Work is paid for before it is placed, every decision is an event in a hash-chained ledger, and
everything else is derived from it.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
