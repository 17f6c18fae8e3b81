"""The keeper: one small process beside each run, which starts the work and reports its end.

The keeper depends on no other process: the daemon may end, be killed or be replaced while the work
runs. The daemon writes the wanted state of the work to one file, and the keeper writes the work's
status to another file. A restarted daemon reads both files. A keeper uses only the standard
library, to stay small, because every run has a keeper.
"""
