"""A mutation tester: it makes small wrong changes to the source, and checks whether tests fail.

``python -m tools.mutation`` copies the project to a temporary folder, records which test executes
which line, draws a fixed sample of mutants, and tries each mutant in a separate process.
"""
