"""Solvers that several policies share: linear programs, prices, assignment, water levels."""
