"""The keeper: one small process beside each run, which starts its work, and sees it go.

It needs nobody: the daemon may end, be killed or be replaced while the work goes on. What is wanted
lies in a file, and what has become of it in another; whoever comes back reads them. Only the
standard library is used, because every run has one.
"""
