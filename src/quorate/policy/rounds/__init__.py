"""The mechanism of rounds: the time owed to jobs, the choice of jobs, and their GPUs."""
