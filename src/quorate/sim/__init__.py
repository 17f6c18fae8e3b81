"""Simulation: the production engine under another clock, store and executor.

Nothing here knows that it is tested: ``tests/dst`` watches it, and a trace can be played in it.
"""
