"""Traces of jobs: what was recorded elsewhere, or drawn, in one form that simulations play."""
