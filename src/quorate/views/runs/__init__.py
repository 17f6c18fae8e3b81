"""Views of runs: descriptions, histories, forecasts, explanations, outcomes."""
