"""The command line: parse, call, render. ``main.py`` only wires; each command has its own file.

Modules of commands import click and little else, so that ``--help`` is fast; a command imports the
rest when it runs. Rendering is pure: values in, text out.
"""
