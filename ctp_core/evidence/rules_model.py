"""Link prediction by mined rules with learnt weights, on edge lists: the engine without attention."""

from collections.abc import Sequence
from functools import cached_property
from itertools import product

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.artifact import Artifact
from ctp_core.base.evaluation import at_once, known_filters, realistic_ranks
from ctp_core.base.facts_model import FactsView, facts_about, read_config, read_kb, read_probabilities
from ctp_core.base.goals import GoalIds
from ctp_core.base.progress import OnPart, unheard
from ctp_core.errors import ArtifactError
from ctp_core.evidence.config import RulesConfig
from ctp_core.evidence.model import EvidenceModel, logits_by
from ctp_core.evidence.rules_arrays import PADDING, TEMPLATES, RuleArrays, RuleTable
from ctp_core.evidence.rules_constants import ConstantRules
from ctp_core.kb.knowledge_base import FactIds, FactsKB, KnowledgeBase
from ctp_core.rules import Template

HEARD = 16  # questions after which a listener hears how far it is: hubs may take a tenth of a second each
COLUMNS = ("head", "template", "body", "weight", "bias", "constants")


class RulesModel(EvidenceModel):
    def __init__(self, config: RulesConfig, kb: FactsKB, table: RuleTable, *, at_home: bool = True) -> None:
        super().__init__(kb)
        self.config: RulesConfig = config
        self._table, self._at_home = table, at_home

    def on(self, kb: KnowledgeBase) -> "RulesModel":
        """Its rules on other facts: those whose predicates it knows, about whatever entities."""
        other = RulesModel(self.config, facts_about(kb, self.kb.predicates), self._table, at_home=False)
        return other.calibrated_by(self.calibration)

    @property
    def arrays(self) -> RuleArrays:
        return self._arrays

    @cached_property
    def _arrays(self) -> RuleArrays:
        long = self.config.constant_atoms > 1
        return rule_arrays(self._table, self.kb_view, long=long, at_home=self._at_home)

    def counts(self, predicate: int, template: Template, body: tuple[int, ...]) -> tuple[int, int]:
        if template.constant and self.arrays.constants is not None:
            return self.arrays.constants.support(predicate, body)
        return super().counts(predicate, template, body)

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        return logits_by_rules(self.arrays, view, goals)

    def ranks_by_constants(
        self, facts: FactIds, weights: Sequence[float], on_part: OnPart = unheard
    ) -> dict[float, Float[np.ndarray, "way fact"]]:
        """The ranks that every weight of the rules with constants would give to these facts; chains are scored once."""
        ranks = {weight: np.zeros((2, len(facts))) for weight in weights}
        filters, edges, batch = known_filters(self.kb, "valid"), self.kb_view.edges, at_once(len(self.kb.entities))
        ranked = 0
        for predicate in np.unique(facts[:, 1]).tolist():
            whole = np.flatnonzero(facts[:, 1] == predicate)
            for rows, way in product(np.array_split(whole, 1 + len(whole) // batch), range(2)):
                given, true = facts[rows, 2 * way], facts[rows, 2 - 2 * way]
                known = filters[way].mask(given, facts[rows, 1])
                chains = self.arrays.chain_rows(edges, predicate, given, forward=not way)
                for some in np.array_split(np.arange(len(rows)), max(1, len(rows) // HEARD)):
                    constants = self.arrays.constant_rows(edges, predicate, given[some], forward=not way)
                    for weight, found in ranks.items():
                        logits = chains[some] + weight * constants
                        found[way, rows[some]] = realistic_ranks(logits, true[some], known[some])
                    ranked += len(some)
                    on_part(ranked, 2 * len(facts))
        return ranks

    def to_artifact(self) -> Artifact:
        return self._base_artifact(table_tensors(self._table))

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "RulesModel":
        """Ignores `device` and stays on the CPU: sparse integer products gain nothing elsewhere."""
        del device
        config, kb = read_config(artifact, RulesConfig), read_kb(artifact)
        model = cls(config, kb, read_table(artifact, len(kb.predicates)))
        return model.calibrated_by(read_probabilities(artifact)).with_counts_of(artifact)


def logits_by_rules(arrays: RuleArrays, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
    """The logits of all candidates. For ranking all goals of a predicate are pushed together, and known facts keep the
    evidence of themselves."""
    if not goals.for_ranking:
        return logits_by(arrays, view, goals)
    logits = np.empty((len(goals), len(view.entities)))
    for predicate in np.unique(goals.predicates).tolist():
        chosen = np.flatnonzero(goals.predicates == predicate)
        logits[chosen] = arrays.rows(view.edges, predicate, goals.given[chosen], forward=goals.forward)
    return logits


def rule_arrays(table: RuleTable, view: FactsView, *, long: bool, at_home: bool) -> RuleArrays:
    """Rules with constants apply only to the KB whose entities they name."""
    spoken = at_home and table.constants.any()
    return RuleArrays(table, ConstantRules(view.edges, long=long) if spoken else None)


def table_tensors(table: RuleTable) -> dict[str, torch.Tensor]:
    return {f"rules.{name}": torch.from_numpy(getattr(table, name)) for name in COLUMNS}


def read_table(artifact: Artifact, num_predicates: int) -> RuleTable:
    """The rules that an artifact stores; raises ArtifactError."""
    try:
        table = RuleTable(**{name: artifact.tensors[f"rules.{name}"].numpy() for name in COLUMNS})
    except KeyError as error:
        raise ArtifactError(f"the artifact of mined rules has no {error}") from None
    _check(table, num_predicates)
    return table


def _check(table: RuleTable, num_predicates: int) -> None:
    """Raises ArtifactError unless the columns fit together and every rule names existing predicates and templates."""
    num_rules = len(table.head)
    shapes = [table.template.shape, table.body.shape[:1], table.weight.shape, table.bias.shape, table.constants.shape]
    if table.body.ndim != 2 or shapes != [(num_rules,)] * 3 + [(num_predicates,)] * 2:
        raise ArtifactError("the columns of the mined rules do not fit together")
    # An atom of a body may be read backwards.
    numbers = ((table.head, 0, num_predicates), (table.template, 0, len(TEMPLATES)))
    for column, low, high in (*numbers, (table.body, PADDING, 2 * num_predicates)):
        if column.dtype.kind != "i" or ((column < low) | (column >= high)).any():
            raise ArtifactError("a mined rule names a predicate or a template that does not exist")
    if any(column.dtype.kind != "f" for column in (table.weight, table.bias, table.constants)):
        raise ArtifactError("the weights of the mined rules are not numbers with fractions")
    lengths = np.array([template.length for template in TEMPLATES])
    if ((table.body != PADDING) != (np.arange(table.body.shape[1]) < lengths[table.template][:, None])).any():
        raise ArtifactError("the body of a mined rule is not as long as its template")
