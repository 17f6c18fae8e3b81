"""Simulation: the production engine with another clock, store and executor.

No module here depends on tests. ``tests/dst`` checks simulations of random worlds. The other
modules simulate traces of jobs.
"""
