"""The calculus: who pays (cover), where (pack), both together (admit), and what follows (decide).

Pure functions of a view of the state and a command. No module here does I/O.
"""
