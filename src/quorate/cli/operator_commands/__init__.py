"""Commands of operators, auditors and researchers: one module each."""
