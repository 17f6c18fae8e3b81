"""Measures Quorate against its targets: ``python -m benchmarks``. See README.md."""
