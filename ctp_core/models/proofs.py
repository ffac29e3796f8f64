"""Link prediction by proofs alone: every proof adds its share to the logit of a fact."""

from collections.abc import Iterator
from dataclasses import dataclass
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
from ctp_core.provers.edge_list import EdgeList
from ctp_core.provers.evidence import EvidenceHead, atom_tables
from ctp_core.rules import Rule
from ctp_core.symbols import Fact

RULES_PER_PREDICATE = 20
ATOMS_PER_PLACE = 6  # a body is decoded from the strongest atoms of each place
MIN_EVIDENCE = 0.05  # a rule whose proof moves the logit by less is not worth listing


@dataclass(frozen=True)
class WeighedPaths:
    """Paths of one template between given pairs, with what each adds to the logit of its pair."""

    pair: Int[np.ndarray, " path"]
    atoms: Int[np.ndarray, "path place"]
    middles: Int[np.ndarray, "path place-1"]
    attentions: Float[np.ndarray, "path place"]  # of the reformulator that contributes most
    shares: Float[np.ndarray, " path"]


class ProofsModel(FactsModel):
    """The answering side of the evidence head: crisp entities, attention over predicates and their inverses."""

    method: ClassVar[str] = "proofs"

    def __init__(self, config: ProofsConfig, kb: FactsKB, head: EvidenceHead) -> None:
        self.config: ProofsConfig = config
        self.kb = kb
        self.head = head
        self._rules: dict[tuple[int, tuple[int, ...]], Rule] = {}
        self._tables: dict[int, NDArray[np.float32]] = {}

    @property
    def semiring(self) -> str:
        return "evidence"

    # What the head computes, as arrays of float64: proofs are read in double precision.

    @cached_property
    def attention(self) -> dict[str, Float[np.ndarray, "predicate reformulator place atom"]]:
        return {template: _array(self.head.attention(template, self._goals)) for template in self.head.templates}

    @cached_property
    def strength(self) -> dict[str, Float[np.ndarray, "predicate reformulator"]]:
        return {template: _array(self.head.strength(template, self._goals)) for template in self.head.templates}

    @cached_property
    def bias(self) -> Float[np.ndarray, " predicate"]:
        return _array(self.head.bias)

    @cached_property
    def loop_bias(self) -> Float[np.ndarray, " predicate"]:
        return _array(self.head.loop_bias)

    def _biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of a fact without any proof."""
        loops = facts[:, 0] == facts[:, 2]
        return np.asarray(self.bias[facts[:, 1]] + self.loop_bias[facts[:, 1]] * loops)

    @property
    def _device(self) -> torch.device:
        return self.head.bias.device

    @property
    def _goals(self) -> Int[Tensor, " predicate"]:
        return torch.arange(len(self.kb.predicates), device=self._device)

    # Scores

    def logits(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        if not view.extended:
            tables = [self._table(predicate) for predicate in facts[:, 1].tolist()[:: max(1, len(facts) - 1)]]
            if (facts[:, 1] == facts[0, 1]).all():
                return tables[0][facts[:, 0], facts[:, 2]].astype(np.float64)
            values = [self._table(predicate)[subject, object_] for subject, predicate, object_ in facts.tolist()]
            return np.array(values, dtype=np.float64)
        if len(facts) > 1 and (facts[:, 1] == facts[0, 1]).all():
            forward = bool((facts[:, 0] == facts[0, 0]).all())
            reached = self._reach(view.edges, int(facts[0, 1]), int(facts[0, 0 if forward else 2]), forward)
            return reached[facts[:, 2 if forward else 0]]
        totals = self._biases(facts)
        for paths in self._weighed(view.edges, facts):
            totals += np.bincount(paths.pair, paths.shares, len(facts))
        return totals

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
        """Logits of all pairs of entities, computed when a predicate is first asked for."""
        if predicate not in self._tables:
            goals = torch.tensor([predicate], device=self._device)
            with torch.no_grad():
                self._tables[predicate] = self.head.logits(self._atom_tables, goals)[0].cpu().numpy()
        return self._tables[predicate]

    def _reach(self, edges: EdgeList, predicate: int, start: int, forward: bool) -> Float[np.ndarray, " entity"]:
        """Logits of all objects of a subject, or of all subjects of an object, pushed along the edges."""
        total = np.full(edges.num_entities, self.bias[predicate])
        total[start] += self.loop_bias[predicate]
        for template, attention in self.attention.items():
            places = attention[predicate]  # [reformulator, place, atom]
            if not forward:  # the same path read from its end: places in reverse, every atom inverted
                places = np.roll(places[:, ::-1], len(self.kb.predicates), axis=-1)
            counts = edges.push(start, places)
            total += self.strength[template][predicate] @ _saturate(counts, int(template))
        return total

    # Proofs

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        weighed = list(self._weighed(view.edges, facts))
        counts = np.bincount(np.concatenate([paths.pair for paths in weighed]), minlength=len(facts))
        proofs = self._best_proofs(view, facts, weighed, num_proofs)
        explanations = []
        rows = zip(logits.tolist(), self._biases(facts).tolist(), counts.tolist(), proofs, strict=True)
        for logit, bias, count, found in rows:
            shown = sum(proof.share or 0.0 for proof in found)
            parts = {"bias": bias, "shown": shown, "rest": logit - bias - shown, "num_proofs": count}
            explanations.append(Explanation(found, parts))
        return explanations

    def _weighed(self, edges: EdgeList, facts: FactIds) -> Iterator[WeighedPaths]:
        """All proofs of the facts, template by template; shares and biases add up to the logits."""
        for template, attention in self.attention.items():
            paths = edges.paths(facts[:, 0], facts[:, 2], int(template))
            goal = facts[paths.pair, 1]
            picked = [attention[goal, :, place, atom] for place, atom in enumerate(paths.atoms.T)]
            masses = np.prod(picked, axis=0)  # [path, reformulator]
            counts = _sum_by(paths.pair, masses, len(facts))
            strength = self.strength[template][facts[:, 1]]
            per_mass = strength * np.divide(_saturate(counts, int(template)), counts, where=counts > 0, out=counts * 0)
            contributions = per_mass[paths.pair] * masses
            best = contributions.argmax(1)
            attentions = np.stack(picked)[:, np.arange(len(best)), best].T
            shares = contributions.sum(1)
            kept = shares > 0  # the excluded identity proves nothing
            yield WeighedPaths(paths.pair[kept], paths.atoms[kept], paths.middles[kept], attentions[kept], shares[kept])

    def _best_proofs(
        self, view: FactsView, facts: FactIds, weighed: list[WeighedPaths], num_proofs: int
    ) -> list[tuple[Proof, ...]]:
        pair = np.concatenate([paths.pair for paths in weighed])
        share = np.concatenate([paths.shares for paths in weighed])
        source = np.repeat(np.arange(len(weighed)), [len(paths.pair) for paths in weighed])
        index = np.concatenate([np.arange(len(paths.pair)) for paths in weighed])
        order = np.lexsort((source, -share, pair))
        starts = np.searchsorted(pair[order], np.arange(len(facts) + 1))
        found = []
        for row, fact in enumerate(facts.tolist()):
            chosen = order[starts[row] : starts[row + 1]]
            chosen = chosen[: _with_ties(share[chosen], num_proofs)]
            proofs = [self._proof(view, fact, weighed[source[i]], index[i]) for i in chosen.tolist()]
            proofs.sort(key=lambda proof: (-(proof.share or 0.0), len(proof.facts), proof.text))
            found.append(tuple(proofs[:num_proofs]))
        return found

    def _proof(self, view: FactsView, fact: list[int], paths: WeighedPaths, path: int) -> Proof:
        subject, predicate, object_ = fact
        body = tuple(paths.atoms[path].tolist())
        stations = (subject, *paths.middles[path].tolist(), object_)
        names = tuple(view.entities.names[entity] for entity in stations)
        facts = chain_facts(self.kb.predicates.names, body, names)
        goal = Fact(names[0], self.kb.predicates.names[predicate], names[-1])
        attentions = tuple(paths.attentions[path].tolist())
        return Proof(chain_proof(goal, self._rule(predicate, body), facts, attentions), float(paths.shares[path]))

    # Rules

    def _rule(self, predicate: int, body: tuple[int, ...]) -> Rule:
        key = (predicate, body)
        if key not in self._rules:
            self._rules[key] = chain_rule(self.kb.predicates.names, predicate, body, self.confidence(predicate, body))
        return self._rules[key]

    def evidence(self, predicate: int, body: tuple[int, ...]) -> float:
        """What a single proof by this rule adds to the logit."""
        template = str(len(body))
        attention = self.attention[template][predicate]  # [reformulator, place, atom]
        mass = np.prod([attention[:, place, atom] for place, atom in enumerate(body)], axis=0)
        return float(self.strength[template][predicate] @ _saturate(mass, len(body)))

    def confidence(self, predicate: int, body: tuple[int, ...]) -> float:
        """The score that the model gives to a fact with exactly one proof, by this rule."""
        return sigmoid(float(self.bias[predicate]) + self.evidence(predicate, body))

    def rules(self) -> list[Rule]:
        """Rules that hold at least once in the KB, by confidence, then precision."""
        counter = RuleCounter(self._kb_view.edges)
        listed = []
        for predicate in range(len(self.kb.predicates)):
            bodies = {body: self.evidence(predicate, body) for body in self._bodies(predicate)}
            strongest = sorted(bodies, key=lambda body: (-bodies[body], body))[:RULES_PER_PREDICATE]
            for body in strongest:
                counts = counter.count(predicate, body)
                if bodies[body] >= MIN_EVIDENCE and counts[0]:
                    confidence = self.confidence(predicate, body)
                    listed.append(chain_rule(self.kb.predicates.names, predicate, body, confidence, counts))
        return sorted(listed, key=lambda rule: (-rule.confidence, -(rule.precision or 0.0), rule.text))

    def _bodies(self, predicate: int) -> set[tuple[int, ...]]:
        found: set[tuple[int, ...]] = set()
        for template, attention in self.attention.items():
            strongest = np.argsort(-attention[predicate], axis=-1, kind="stable")[..., :ATOMS_PER_PLACE]
            for places in strongest.tolist():
                found.update(product(*places))
            if template == "1":
                found.discard((predicate,))
        return found

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


def _array(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.detach().cpu().double().numpy()


def _saturate(counts: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    return np.asarray(counts if length == 1 else counts / (1 + counts))


def _sum_by(pair: NDArray[np.int64], values: NDArray[np.float64], num_pairs: int) -> NDArray[np.float64]:
    """Sums the rows of `values` that belong to the same pair: [pair, reformulator]."""
    columns = [np.bincount(pair, column, num_pairs) for column in values.T]
    return np.stack(columns, axis=1).astype(np.float64)  # of no paths, bincount makes integers


def _with_ties(shares: NDArray[np.float64], wanted: int) -> int:
    """How many of the descending shares to build, so that ties at the cut can be broken by text."""
    if wanted <= 0 or not len(shares):
        return 0
    last = shares[min(wanted, len(shares)) - 1]
    return int(np.searchsorted(-shares, -last, side="right"))
