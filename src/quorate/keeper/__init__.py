"""The keeper: one small process beside each run, which starts its work, and reports its end.

It depends on no other process: the daemon may end, be killed or be replaced while the work runs.
One file has the wanted state, another the status; a daemon that comes back reads them. Only the
standard library is used, because every run has a keeper.
"""
