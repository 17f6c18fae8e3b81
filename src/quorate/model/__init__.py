"""The data types of Quorate: the recorded events, and the state derived from them.

No module here does I/O, reads a clock or draws a random number. docs/glossary.md has the words, and
ADR-0003 says why events are ``msgspec`` structs.
"""
