"""For tests of extensions of Quorate: strategies for Hypothesis, and contract tests for adapters.

No other module of the package imports this one.
"""
