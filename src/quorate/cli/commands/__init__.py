"""Commands of people who submit work and look at it: one module each."""
