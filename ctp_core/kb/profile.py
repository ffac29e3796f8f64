"""The properties of a KB from which presets choose their settings."""

from pydantic import BaseModel, ConfigDict

from ctp_core.kb.graph_paths import templates_needed
from ctp_core.kb.knowledge_base import GraphsKB, Kind, KnowledgeBase


class Profile(BaseModel):
    """Counts of a KB; `max_length` is the number of facts of the largest training graph, 0 for `facts`.

    `templates` are those that its training graphs need besides chains.
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
