"""Rules as people read them: `p(X,Y) :- q(X,Z), r(Z,Y)`."""

import hashlib
from dataclasses import dataclass

ID_LENGTH = 12


@dataclass(frozen=True)
class Atom:
    """A predicate over two variables."""

    predicate: str
    subject: str
    object: str

    def __str__(self) -> str:
        return f"{self.predicate}({self.subject},{self.object})"


@dataclass(frozen=True)
class Rule:
    """A decoded rule: confidence as the model has it, support and precision as counted over the KB.

    `approximate` says that a body predicate was generated and is shown by its nearest name.
    """

    head: Atom
    body: tuple[Atom, ...]
    template: str
    confidence: float
    support: int | None = None
    precision: float | None = None
    approximate: bool = False

    @property
    def text(self) -> str:
        return f"{self.head} :- {', '.join(map(str, self.body))}"

    @property
    def id(self) -> str:
        """The same text has the same id in every model, so that rules can be compared between models."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:ID_LENGTH]
