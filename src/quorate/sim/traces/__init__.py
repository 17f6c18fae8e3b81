"""Traces of jobs, recorded elsewhere or drawn, in one form that simulations play."""
