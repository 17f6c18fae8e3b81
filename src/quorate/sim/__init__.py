"""Simulation: the production engine with another clock, store and executor.

No module here depends on tests. ``tests/dst`` observes simulations of random worlds; other modules
play traces of jobs.
"""
