"""The vocabulary of Quorate as values: the recorded events, and the state derived from them.

No module here does I/O, reads a clock or draws a random number. See docs/glossary.md for the words
and ADR-0003 for why events are ``msgspec`` structs.
"""
