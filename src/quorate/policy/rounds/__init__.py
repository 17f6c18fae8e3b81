"""The mechanism of rounds: what each job is owed, who is chosen, and which GPUs it gets."""
