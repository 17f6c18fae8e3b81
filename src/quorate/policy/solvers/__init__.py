"""Solvers that several policies use: linear programs, prices, assignments, water levels."""
