"""Commands of users who submit runs: one module each."""
