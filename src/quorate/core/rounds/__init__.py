"""Begins the rounds of pools, and pays and places their grants. Start at ``begin_round.py``."""
