"""What is shown about runs: descriptions, histories, forecasts, explanations, outcomes."""
