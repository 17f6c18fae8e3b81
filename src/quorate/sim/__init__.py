"""Simulation: the production engine with another clock, store and executor.

No module here depends on tests. Some modules simulate random worlds, and ``tests/dst`` checks these
simulations. The other modules simulate traces of jobs.
"""
