"""Decisions: who pays (cover), on which slots (pack), both (admit), and the events (decide).

Pure functions of a view of the state and a command. No module here does I/O.
"""
