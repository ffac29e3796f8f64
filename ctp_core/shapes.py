"""The one list of axis names; every annotated shape in this package uses these words.

goal            goals (or sub-goals) whose predicate vectors are handled together
dim             length of a predicate or entity vector
predicate       known predicates
reformulator    reformulators of one template, side by side
atom            places in the body of a rule, left to right
rule            rules stored in a memory
fact            facts of a batch of graphs
pair            (entity, entity) pairs of a batch of graphs
way             ways to go through a body from the first entity of a pair to the last
query           pairs that are asked for
target          predicates that may be the answer
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Vectors = Float[Tensor, "goal dim"]
PredicateVectors = Float[Tensor, "predicate dim"]
Heads = Float[Tensor, "goal reformulator"]
Bodies = Float[Tensor, "goal reformulator atom dim"]
Attention = Float[Tensor, "goal reformulator atom predicate"]

__all__ = ["Attention", "Bodies", "Bool", "Float", "Heads", "Int", "PredicateVectors", "Tensor", "Vectors"]
