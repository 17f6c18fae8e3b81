"""The command line: parse options, request an operation, print the response.

``main.py`` only wires the commands; each command has its own file. Modules of commands import click
and little else, so that ``--help`` is fast; a command imports all other modules when it runs. The
functions that render output are pure.
"""
