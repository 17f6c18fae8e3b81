"""Policies that allocate GPUs of several flavors; see docs/adr/0023-policies.md."""
