"""What the commands ``simulate`` and ``whatif`` read, compare and write."""
