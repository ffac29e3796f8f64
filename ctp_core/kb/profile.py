"""The properties of a KB from which presets choose their settings."""

from pydantic import BaseModel, ConfigDict

from ctp_core.kb.graphs import templates_needed
from ctp_core.kb.knowledge_base import GraphsKB, Kind, KnowledgeBase

# These thresholds separate the shapes of a few benchmarks (Countries, Nations, Kinship, UMLS). Presets were tuned on
# those; for other KBs they are a guess.
SMALL_KB = 500  # facts; a smaller KB has little to learn from, and many epochs cost little
DENSE = 0.1  # share of all possible facts that are known: Nations 0.15, Kinship 0.03, UMLS 0.006
HALF_DENSE = 0.02  # the same share; between Kinship and UMLS
FEW_PREDICATES = 5  # so few that rules of every chain of them can be learnt, as in Countries
DENSE_CELLS = 2e8  # cells of tables of all pairs that fit into memory with their gradients


class Profile(BaseModel):
    """Counts of a KB. `max_length` is the number of facts in the largest training graph, 0 for kind `facts`.

    `templates` are those that the training graphs need besides chains.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    num_facts: int
    num_entities: int
    num_predicates: int
    max_length: int = 0
    templates: tuple[str, ...] = ()

    @classmethod
    def of(cls, kb: KnowledgeBase) -> "Profile":
        if isinstance(kb, GraphsKB):
            train = kb.splits.get("train", ())
            sizes = [len(graph.facts) for graph in train]
            return cls(
                kind="graphs",
                num_facts=sum(sizes),
                num_entities=0,
                num_predicates=len(kb.predicates),
                max_length=max(sizes, default=0),
                templates=templates_needed(train),
            )
        return cls(
            kind="facts",
            num_facts=len(kb.splits.get("train", ())),
            num_entities=len(kb.entities),
            num_predicates=len(kb.predicates),
        )

    @property
    def density(self) -> float:
        """The share of all possible facts that are known."""
        return self.num_facts / max(1, self.num_predicates * self.num_entities**2)

    @property
    def small(self) -> bool:
        return self.num_facts < SMALL_KB

    @property
    def few_predicates(self) -> bool:
        return self.num_predicates <= FEW_PREDICATES

    @property
    def large(self) -> bool:
        """Whether tables of all pairs of entities would be too large to learn with."""
        return self.num_predicates * self.num_entities**2 > DENSE_CELLS
