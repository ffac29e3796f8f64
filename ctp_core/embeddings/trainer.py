"""Trains ComplEx and DistMult: ranks the answers of every question among all entities, with Adagrad and N3."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ctp_core.base.calibration import MISSING, calibrate
from ctp_core.base.evaluation import known_filters, rank_facts
from ctp_core.base.facts_trainer import FactsTrainer
from ctp_core.base.training_loop import constant_then_falling
from ctp_core.embeddings.config import EmbeddingConfig
from ctp_core.embeddings.factorisations import FACTORISATIONS, Factorisation
from ctp_core.embeddings.model import EmbeddingModel
from ctp_core.embeddings.scale import fit_scale
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.splits import FactsSplit

UNCALIBRATED = (1.0, 0.0)
VALIDATION = 5000  # the most facts that are ranked between epochs
MIN_CHANCE = 1e-6  # lower bound: an entity without facts is never a rival where none is drawn

Ids = Int[Tensor, " row"]


class QuestionList:
    """The questions (entity, predicate or inverse, ?) that the facts of a KB answer, each fact read both ways.

    With `grouped`, equal questions are one, so that a question with a hundred answers is scored once.
    """

    def __init__(self, facts: Int[Tensor, "fact 3"], num_predicates: int, *, grouped: bool) -> None:
        subject, predicate, object_ = facts.unbind(1)
        given, answers = torch.cat([subject, object_]), torch.cat([object_, subject])
        self._atoms = 2 * num_predicates
        keys = given * self._atoms + torch.cat([predicate, predicate + num_predicates])
        order = torch.argsort(keys, stable=True)
        self._answers = answers[order]
        self._keys, self._counts = keys[order], torch.ones_like(keys)
        if grouped:
            self._keys, self._counts = torch.unique_consecutive(keys[order], return_counts=True)
        self._starts = torch.cumsum(self._counts, 0) - self._counts

    def __len__(self) -> int:
        return len(self._keys)

    def appearances(self, num_entities: int) -> Ids:
        """Counts how often each entity occurs, as the given entity of a question or as an answer."""
        given = torch.bincount(self._keys // self._atoms, minlength=num_entities)
        return given + torch.bincount(self._answers, minlength=num_entities)

    def of(self, chosen: Ids) -> tuple[Ids, Ids, Ids, Ids]:
        """Returns (entity, atom) of each chosen question, and (question, answer) of each of their facts."""
        counts = self._counts[chosen]
        question = torch.repeat_interleave(torch.arange(len(chosen)), counts)
        first = self._starts[chosen] - (torch.cumsum(counts, 0) - counts)
        answer = self._answers[torch.arange(len(question)) + first[question]]
        return self._keys[chosen] // self._atoms, self._keys[chosen] % self._atoms, question, answer


class _LogPartition(torch.autograd.Function):
    """Turns the table of products into probabilities in place: writing a table of this size is what takes time."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, candidates: Tensor, log_weights: Tensor | None) -> Tensor:
        table = queries @ candidates.T
        if log_weights is not None:
            table += log_weights
        top = table.amax(1, keepdim=True)
        sums = table.sub_(top).exp_().sum(1, keepdim=True)
        ctx.save_for_backward(queries, candidates, table, sums)
        return (top + sums.log()).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        queries, candidates, table, sums = ctx.saved_tensors
        table.mul_(gradient[:, None] / sums)
        return table @ candidates, table.T @ queries, None


def log_partition(
    queries: Float[Tensor, "query width"],
    candidates: Float[Tensor, "candidate width"],
    log_weights: Float[Tensor, "query candidate"] | None = None,
) -> Float[Tensor, " query"]:
    """torch.logsumexp(queries @ candidates.T + log_weights, 1), but faster; the weights get no gradient.

    Training an embedding spends most of its time here.
    """
    return _LogPartition.apply(queries, candidates, log_weights)  # type: ignore[no-any-return,no-untyped-call]


class EmbeddingTrainer(FactsTrainer[EmbeddingModel]):
    """Learns to rank the answers of each question above all rivals; a step scores each of its questions once."""

    config: EmbeddingConfig
    module: Factorisation

    def __init__(self, config: EmbeddingConfig, kb: FactsKB, device: torch.device) -> None:
        super().__init__(config, kb, device, config.eval_every)
        sizes = (len(kb.entities), len(kb.predicates))
        self.module = FACTORISATIONS[config.method](sizes, config.width, self.generator, device)
        fused = device.type == "cpu" and config.negatives is None  # a fused step does not support sparse gradients
        self.optimiser = torch.optim.Adagrad(self.module.parameters(), lr=config.learning_rate, fused=fused)
        self._questions = QuestionList(torch.from_numpy(self.split.train), sizes[1], grouped=config.grouped)
        self._log_weights = self._inverse_chances().log().to(device)

    def batches(self) -> Sequence[Tensor]:
        order = torch.randperm(len(self._questions), generator=self.generator)
        return torch.split(order, self.config.batch_size)

    def step(self, batch: Tensor, learning_rate: float) -> float:
        """Skips the check of sparse gradients: torch itself makes those of sampled rivals."""
        with torch.sparse.check_sparse_tensor_invariants(enable=False):  # type: ignore[no-untyped-call]
            return super().step(batch, learning_rate)

    def learning_rate(self, step: int, steps: int) -> float:
        return constant_then_falling(step, steps, self.config.learning_rate, self.config.decay)

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        entity, atom, question, answer = (ids.to(self.device) for ids in self._questions.of(batch))
        chosen, entity, answer = self._rivals(entity, answer)
        rivals = self._vectors(chosen)
        # Gathers both at once: each gather has a gradient as large as the table of all entities.
        gathered = functional.embedding(torch.cat([entity, answer]), rivals)
        asked, answers = gathered[: len(entity)], gathered[len(entity) :]
        queries, predicates = self.module.queries(asked, atom, tied=not self.config.reciprocal)
        given = asked[question]
        # Computes the product again: a cell of the table would have a gradient as large as the table, full of zeros.
        true = (queries[question] * answers).sum(-1)
        log_weights = self._log_weights_of(chosen, question, answer, len(queries))
        fit = (log_partition(queries, rivals, log_weights)[question] - true).mean()
        if self.config.predicate_weight:
            fit = fit + self.config.predicate_weight * self._predicates_loss(given, atom[question], answers)
        norms = [(self.module.moduli(v) ** 3).sum() for v in (given, predicates[question], answers)]
        return fit + self.config.n3 * torch.stack(norms).sum() / len(answer)

    def _predicates_loss(
        self, given: Float[Tensor, "fact width"], atoms: Int[Tensor, " fact"], answers: Float[Tensor, "fact width"]
    ) -> Float[Tensor, ""]:
        """Mean of -log P(predicate of the fact) among all predicates."""
        forward = (atoms < self.module.num_predicates)[:, None]
        subjects, objects = torch.where(forward, given, answers), torch.where(forward, answers, given)
        logits = self.module.pairs(subjects, objects) @ self.module.predicates.T
        return functional.cross_entropy(logits, atoms % self.module.num_predicates)

    def _rivals(
        self, entities: Int[Tensor, " question"], answers: Int[Tensor, " fact"]
    ) -> tuple[Int[Tensor, " rival"] | None, Int[Tensor, " question"], Int[Tensor, " fact"]]:
        """Returns (rivals, places of the entities among them, places of the answers among them).

        Rivals are None for all entities, else the entities of the batch and `negatives` random ones.
        """
        if self.config.negatives is None:
            return None, entities, answers
        drawn = torch.randint(len(self.kb.entities), (self.config.negatives,), generator=self.generator)
        together = torch.cat([entities, answers, drawn.to(self.device)])
        chosen, where = torch.unique(together, return_inverse=True)
        return chosen, *where[: len(entities) + len(answers)].split([len(entities), len(answers)])

    def _vectors(self, rivals: Int[Tensor, " rival"] | None) -> Float[Tensor, "rival width"]:
        """The vectors of the rivals. Sampled ones get sparse gradients, so that a step costs only what it touches."""
        everybody = self.module.entities
        return everybody if rivals is None else functional.embedding(rivals, everybody, sparse=True)

    def _inverse_chances(self) -> Float[Tensor, " entity"]:
        """1 / P(entity is a rival in a step), either because it is in the batch or because it is drawn."""
        num_entities, drawn = len(self.kb.entities), self.config.negatives or 0
        share = min(1.0, self.config.batch_size / len(self._questions))
        left_out = (1 - share) ** self._questions.appearances(num_entities) * (1 - 1 / num_entities) ** drawn
        return 1 / (1 - left_out).clamp(min=MIN_CHANCE)

    def _log_weights_of(
        self,
        rivals: Int[Tensor, " rival"] | None,
        question: Int[Tensor, " fact"],
        answer: Int[Tensor, " fact"],
        num_questions: int,
    ) -> Float[Tensor, "question rival"] | None:
        """The logarithm of how often each rival counts. A question's own answers are always rivals and count once."""
        if rivals is None or not self.config.weigh_negatives:
            return None
        weights = self._log_weights[rivals].repeat(num_questions, 1)
        weights[question, answer] = 0
        return weights

    def ranks(self) -> Float[np.ndarray, " question"]:
        model = EmbeddingModel(self.config, self.kb, self.module, UNCALIBRATED)
        facts = self.split.valid_sample(VALIDATION)
        return rank_facts(facts, model.kb_logits, known_filters(self.kb, "valid"), self.on_part)

    def model(self) -> EmbeddingModel:
        raw = self.ranking_model()
        model = type(raw)(self.config, self.kb, raw.factorisation, fit_scale(raw.kb_logits, self.kb, self.split))
        # Without validation facts, training facts must do, although they are fitted too well.
        learnt = FactsSplit(self.split.train[:0], self.split.train)
        split, missing = (self.split, MISSING) if self.split.measurable else (learnt, 0.0)
        return model.calibrated_by(calibrate([(model.kb_logits, split)], self.kb, missing))

    def ranking_model(self) -> EmbeddingModel:
        factorisation = self.with_best_weights(self.module)
        return EmbeddingModel(self.config, self.kb, factorisation, UNCALIBRATED)
