"""Decisions: payers (cover), placement (pack), both together (admit), and events (decide).

Pure functions of a view of the state and a command. No module here does I/O.
"""
