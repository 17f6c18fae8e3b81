"""Schedulers of others, as published, to compare with: a small event-driven simulation.

``baseline_simulation`` has time and work, ``baseline_orders`` who runs under each scheduler, and
``packing`` where whole-GPU pods go. Nothing here decides anything in production.
"""
