"""Input, comparison and output files of the commands ``simulate`` and ``whatif``."""
