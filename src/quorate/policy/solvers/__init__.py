"""Solvers for several policies: linear programs, prices, assignments, water filling."""
