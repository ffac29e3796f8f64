"""Link prediction by proofs alone: every proof adds its share to the logit of a fact."""

from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ctp_core.artifact import Artifact
from ctp_core.config.proofs import ProofsConfig
from ctp_core.datasets.kb import FactIds, FactsKB
from ctp_core.errors import ArtifactError
from ctp_core.models.chain_rules import chain_facts, chain_proof, chain_rule
from ctp_core.models.facts_model import Explanation, FactsModel, FactsView, read_config, read_kb, sigmoid
from ctp_core.proofs import Proof
from ctp_core.provers.counting import RuleCounter
from ctp_core.provers.evidence import EvidenceHead, OwnFacts, atom_tables
from ctp_core.provers.evidence_arrays import EvidenceArrays, WeighedPaths
from ctp_core.rules import Rule

RULES_PER_PREDICATE = 20
ATOMS_PER_PLACE = 6  # a body is decoded from the strongest atoms of each place
MIN_EVIDENCE = 0.05  # a rule whose proof moves the logit by less is not worth listing


class ProofsModel(FactsModel):
    """The answering side of the evidence head: crisp entities, attention over predicates and their inverses."""

    method: ClassVar[str] = "proofs"

    def __init__(self, config: ProofsConfig, kb: FactsKB, head: EvidenceHead) -> None:
        self.config: ProofsConfig = config
        self.kb = kb
        self.head = head
        self._rules: dict[tuple[int, str, tuple[int, ...]], Rule] = {}
        self._tables: dict[int, NDArray[np.float32]] = {}

    @property
    def semiring(self) -> str:
        return "evidence"

    @cached_property
    def arrays(self) -> EvidenceArrays:
        return EvidenceArrays(self.head)

    @property
    def _device(self) -> torch.device:
        return self.head.bias.device

    # Scores

    def logits(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        same_predicate = bool((facts[:, 1] == facts[0, 1]).all()) if len(facts) else True
        if not view.extended:
            if same_predicate:
                return np.asarray(self._table(int(facts[0, 1]))[facts[:, 0], facts[:, 2]], dtype=np.float64)
            values = [self._table(predicate)[subject, object_] for subject, predicate, object_ in facts.tolist()]
            return np.array(values, dtype=np.float64)
        if len(facts) > 1 and same_predicate:
            forward = bool((facts[:, 0] == facts[0, 0]).all())
            given, asked = (0, 2) if forward else (2, 0)
            reached = self.arrays.reach(view.edges, int(facts[0, 1]), int(facts[0, given]), forward=forward)
            return np.asarray(reached[facts[:, asked]])
        return self.arrays.totals(view.edges, facts)

    def object_logits(
        self, subjects: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> Float[np.ndarray, "question entity"]:
        rows = zip(subjects.tolist(), predicates.tolist(), strict=True)
        return np.stack([self._table(predicate)[subject] for subject, predicate in rows])

    def subject_logits(
        self, objects: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> Float[np.ndarray, "question entity"]:
        rows = zip(objects.tolist(), predicates.tolist(), strict=True)
        return np.stack([self._table(predicate)[:, object_] for object_, predicate in rows])

    @cached_property
    def _atom_tables(self) -> Float[Tensor, "atom entity entity"]:
        return atom_tables(self.kb.splits["train"], len(self.kb.entities), len(self.kb.predicates), self._device)

    def _table(self, predicate: int) -> NDArray[np.float32]:
        """Logits of all pairs of entities, computed when a predicate is first asked for; no fact proves itself."""
        if predicate not in self._tables:
            goals = torch.tensor([predicate], device=self._device)
            subject, object_ = self._atom_tables[predicate].nonzero().unbind(1)
            own = OwnFacts(torch.zeros_like(subject), goals.expand(len(subject)), subject, object_)
            with torch.no_grad():
                self._tables[predicate] = self.head.logits(self._atom_tables, goals, own)[0].cpu().numpy()
        return self._tables[predicate]

    # Proofs

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        weighed = self.arrays.weigh(view.edges, facts)
        counts = np.bincount(np.concatenate([paths.fact for paths in weighed]), minlength=len(facts))
        proofs = self._best_proofs(view, facts, weighed, num_proofs)
        explanations = []
        rows = zip(logits.tolist(), self.arrays.biases(facts).tolist(), counts.tolist(), proofs, strict=True)
        for logit, bias, count, found in rows:
            shown = sum(proof.share or 0.0 for proof in found)
            parts = {"bias": bias, "shown": shown, "rest": logit - bias - shown, "num_proofs": count}
            explanations.append(Explanation(found, parts))
        return explanations

    def _best_proofs(
        self, view: FactsView, facts: FactIds, weighed: list[WeighedPaths], num_proofs: int
    ) -> list[tuple[Proof, ...]]:
        fact = np.concatenate([paths.fact for paths in weighed])
        share = np.concatenate([paths.shares for paths in weighed])
        source = np.repeat(np.arange(len(weighed)), [len(paths.fact) for paths in weighed])
        index = np.concatenate([np.arange(len(paths.fact)) for paths in weighed])
        order = np.lexsort((-share, fact))
        starts = np.searchsorted(fact[order], np.arange(len(facts) + 1))
        found = []
        for row, goal in enumerate(facts.tolist()):
            chosen = order[starts[row] : starts[row + 1]]
            chosen = chosen[: _with_ties(share[chosen], num_proofs)]
            proofs = [self._proof(view, goal, weighed[source[i]], index[i]) for i in chosen.tolist()]
            proofs.sort(key=lambda proof: (-(proof.share or 0.0), len(proof.facts), proof.text))
            found.append(tuple(proofs[:num_proofs]))
        return found

    def _proof(self, view: FactsView, goal: list[int], paths: WeighedPaths, path: int) -> Proof:
        body = tuple(paths.atoms[path].tolist())
        stations = tuple(view.entities.names[entity] for entity in paths.stations[path].tolist())
        facts = chain_facts(self.kb.predicates.names, body, stations)
        attentions = tuple(paths.attentions[path].tolist())
        rule = self._rule(goal[1], paths.template, body)
        return Proof(chain_proof(view.fact(*goal), rule, facts, attentions), float(paths.shares[path]))

    # Rules

    def _rule(self, predicate: int, template: str, body: tuple[int, ...]) -> Rule:
        key = (predicate, template, body)
        if key not in self._rules:
            confidence = self.confidence(predicate, template, body)
            self._rules[key] = chain_rule(self.kb.predicates.names, predicate, template, body, confidence)
        return self._rules[key]

    def confidence(self, predicate: int, template: str, body: tuple[int, ...]) -> float:
        """The score that the model gives to a fact with exactly one proof, by this rule."""
        return sigmoid(float(self.arrays.bias[predicate]) + self.arrays.evidence(predicate, template, body))

    def rules(self) -> list[Rule]:
        """Rules that hold at least once in the KB, by confidence, then precision."""
        counter = RuleCounter(self._kb_view.edges)
        listed = []
        for predicate in range(len(self.kb.predicates)):
            bodies = {body: self.arrays.evidence(predicate, *body) for body in self._bodies(predicate)}
            strongest = sorted(bodies, key=lambda body: (-bodies[body], body))[:RULES_PER_PREDICATE]
            for template, body in strongest:
                counts = counter.count(predicate, template, body)
                if bodies[template, body] >= MIN_EVIDENCE and counts[0]:
                    confidence = self.confidence(predicate, template, body)
                    listed.append(chain_rule(self.kb.predicates.names, predicate, template, body, confidence, counts))
        return sorted(listed, key=lambda rule: (-rule.confidence, -(rule.precision or 0.0), rule.text))

    def _bodies(self, predicate: int) -> set[tuple[str, tuple[int, ...]]]:
        """(template, body) of the strongest atoms of each place of each reformulator."""
        found: set[tuple[str, tuple[int, ...]]] = set()
        for template, attention in self.arrays.attention.items():
            strongest = np.argsort(-attention[predicate], axis=-1, kind="stable")[..., :ATOMS_PER_PLACE]
            for places in strongest.tolist():
                found.update((template, body) for body in product(*places))
        return found - {("1", (predicate,))}

    # Files

    def to_artifact(self) -> Artifact:
        return self._base_artifact({f"head.{name}": tensor for name, tensor in self.head.state_dict().items()})

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "ProofsModel":
        config, kb = read_config(artifact), read_kb(artifact)
        if not isinstance(config, ProofsConfig):
            raise ArtifactError(f"a model of method {config.method!r} is no model of proofs")
        head = EvidenceHead(len(kb.predicates), config.templates, torch.Generator(), device)
        state = {name.removeprefix("head."): t for name, t in artifact.tensors.items() if name.startswith("head.")}
        try:
            head.load_state_dict(state)
        except RuntimeError as error:
            raise ArtifactError(f"the tensors do not fit the config: {error}") from None
        return cls(config, kb, head)


def _with_ties(shares: NDArray[np.float64], wanted: int) -> int:
    """How many of the descending shares to build, so that ties at the cut can be broken by text."""
    if wanted <= 0 or not len(shares):
        return 0
    last = shares[min(wanted, len(shares)) - 1]
    return int(np.searchsorted(-shares, -last, side="right"))
