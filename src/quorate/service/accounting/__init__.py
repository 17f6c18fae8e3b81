"""Links to accounting systems: they read the remaining hours, and report the used hours."""
