"""The command line: it parses options, requests an operation, and prints the response.

``main.py`` only lists the commands; each command has its own file. The module of a command imports
click and little else, so that ``--help`` is fast. A command imports all other modules when it runs.
The functions that render output are pure.
"""
