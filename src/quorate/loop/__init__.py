"""The loop: read, decide, append, act, behind the ports."""
