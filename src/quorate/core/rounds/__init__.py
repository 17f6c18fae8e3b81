"""Rounds pools: a round begins, its grants are paid and placed. Start at ``begin_round.py``."""
