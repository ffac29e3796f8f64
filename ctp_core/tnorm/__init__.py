"""⊗, how the parts of one proof make its score, one file for each. A new one is a file here and a line in registry.py.

How the scores of several proofs become one (⊕) is in `ctp_core.aggregations`.
"""
