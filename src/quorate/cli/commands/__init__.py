"""Commands for people who submit work and follow it: one module each."""
