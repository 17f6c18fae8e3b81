"""The mechanism of rounds: the time each job is owed, which jobs are chosen, and their GPUs."""
