"""Shipped for those who extend Quorate: strategies for Hypothesis and the stores' contract suite.

Nothing in the package imports this.
"""
