"""The keeper: one small process beside each run, which starts the work and reports its end.

The keeper depends on no other process: the daemon may end, be killed or be replaced while the work
runs. One file has the wanted state, and another the status. A daemon that starts again reads both.
Only the standard library is used, because every run has a keeper.
"""
