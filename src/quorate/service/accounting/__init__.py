"""Links to accounting systems: what is left is read, what was used is reported."""
