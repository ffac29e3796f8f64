"""Logical questions: several atoms and variables over a KB that lacks facts; every atom of an answer has its proofs."""
