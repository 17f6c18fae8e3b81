"""Simulation: the production engine with another clock, store and executor.

No module here depends on tests: ``tests/dst`` observes it, and a trace can be played in it.
"""
