"""Measurements of Quorate against its targets; run with ``python -m benchmarks``. See README.md."""
