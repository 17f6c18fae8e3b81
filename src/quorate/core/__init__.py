"""The core decides: it places runs on GPUs, chooses who pays, and returns the events to record.

``cover`` chooses the payers, ``pack`` chooses the placement, and ``admit`` searches for both
together. ``decide`` turns a command into events. All of them are pure functions of a view of the
state and of a command. No module here does I/O.
"""
