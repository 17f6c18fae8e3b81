"""For extensions of Quorate: strategies for Hypothesis, and contract suites for adapters.

No other module of the package imports this one.
"""
