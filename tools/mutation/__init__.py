"""A mutation tester: small wrong changes to the source, and whether any test notices.

``python -m tools.mutation`` copies the project to a temporary folder, learns there which test
executes which line, draws a fixed sample of mutants and tries each in a process of its own.
"""
