"""Policies, estimates and tables of rates, as lines and as trees."""
