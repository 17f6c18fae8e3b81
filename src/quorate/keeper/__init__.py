"""The keeper: one small process beside each run, which starts the work and reports its end.

The keeper depends on no other process: the daemon may end, be killed or be replaced while the work
runs. One file has the wanted state, and another file has the status. A restarted daemon reads both
files. A keeper uses only the standard library, to stay small, because every run has a keeper.
"""
