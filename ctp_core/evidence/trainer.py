"""Trains the engine: mines rules and fits their weights, learns attention, then chooses the share of each part."""

import torch

from ctp_core.artifact import Artifact
from ctp_core.base.evaluation import known_filters, rank_facts, ranking_metrics
from ctp_core.base.facts_trainer import CalibratedTrainer
from ctp_core.base.model import Model
from ctp_core.base.parts import TrainingPart, checkpoint_parts, restore_parts
from ctp_core.base.progress import OnStep, Progress, ignore, parts_of
from ctp_core.base.trainer import Trainer
from ctp_core.base.training_state import under
from ctp_core.errors import ArtifactError
from ctp_core.evidence.attention_trainer import AttentionTrainer
from ctp_core.evidence.config import VALIDATION, ProofsConfig
from ctp_core.evidence.cost import attention_seconds, mining_seconds
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.evidence.rules_trainer import RulesTrainer
from ctp_core.evidence.shares import Shares, choose_shares
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.kb.splits import FactsSplit, affordable

CHOOSING = 1000  # validation facts that choose the shares
SHARING = 0.05  # of the work, by which the time left is told: choosing the shares and the last validation


def evidence_trainer(config: ProofsConfig, kb: FactsKB, device: torch.device) -> "EvidenceTrainer | AttentionTrainer":
    """The trainer of attention alone where nothing is mined."""
    return EvidenceTrainer(config, kb, device) if config.mined else AttentionTrainer(config, kb, device)


class EvidenceTrainer(CalibratedTrainer[ProofsModel]):
    """The epochs of the mined rules, then those of attention, then one that chooses the shares.

    The name of a part prefixes its metrics.
    """

    def __init__(self, config: ProofsConfig, kb: FactsKB, device: torch.device) -> None:
        self.config, self.kb, self.split = config, kb, FactsSplit.of(kb)
        self.mined = RulesTrainer(config.mining, kb, device)
        self.attention = AttentionTrainer(config, kb, device) if config.templates else None
        self._shares: Shares | None = None  # once they are chosen
        self._profile = Profile.of(kb)

    @property
    def epochs(self) -> int:  # type: ignore[override]
        return self.mined.epochs + (self.attention.epochs + 1 if self.attention else 0)

    @property
    def epoch(self) -> int:  # type: ignore[override]
        return self.mined.epoch + (self.attention.epoch if self.attention else 0) + (self._shares is not None)

    @property
    def _parts(self) -> dict[str, Trainer[Model]]:
        return {"mined": self.mined} | ({} if self.attention is None else {"attention": self.attention})

    @property
    def finished(self) -> bool:
        return self.mined.finished and (self.attention is None or self._shares is not None)

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        if not self.mined.finished:
            return self._mining().train_epoch(on_step)
        assert self.attention is not None
        if not self.attention.finished:
            return self._attending(self.attention).train_epoch(on_step)
        sharing = Progress(self.epoch, self.epochs, 0, 1, None, phase="validation", done=1 - SHARING)
        on_step(sharing)
        visible = self.split.visible(self.kb)
        choosing, validating = (affordable(most, len(self.kb.entities)) for most in (CHOOSING, VALIDATION))
        self._shares = choose_shares(self._whole(visible), self.split.valid_sample(choosing))
        facts, model = self.split.valid_sample(validating), self.model_on(visible)
        ranked = parts_of("validation", sharing, on_step)
        metrics = ranking_metrics(rank_facts(facts, model.kb_logits, known_filters(self.kb, "valid"), ranked))
        return Progress(self.epoch, self.epochs, 1, 1, None, metrics, "validation", 1.0)

    def sampled_metrics(self) -> dict[str, float]:
        return {} if self.mined.finished else self.mined.sampled_metrics()

    def _mining(self) -> TrainingPart:
        """Mined rules, which are the whole training where nothing else is learnt."""
        if self.attention is None:
            return TrainingPart(self, self.mined, 0, 0.0, 1.0)
        return TrainingPart(self, self.mined, 0, 0.0, self._mining_share(), "mined_")

    def _attending(self, attention: AttentionTrainer) -> TrainingPart:
        behind = self._mining_share()
        return TrainingPart(self, attention, self.mined.epochs, behind, 1 - SHARING - behind, "attention_")

    def _mining_share(self) -> float:
        """The share of the forecast work that mining takes."""
        mined, attention = mining_seconds(self.config, self._profile), attention_seconds(self.config, self._profile)
        return (1 - SHARING) * mined / (mined + attention)

    def _whole(self, kb: FactsKB) -> ProofsModel:
        """All parts learnt so far, each at its full share."""
        table = self.mined.table()
        if self.attention is None:
            return ProofsModel(self.config, kb, None, None, table)
        attended = self.attention.model_on(kb)
        return ProofsModel(self.config, kb, attended.head, attended.offsets, table)

    def model_on(self, kb: FactsKB) -> ProofsModel:
        """The best model so far, applied to the facts of this KB."""
        whole = self._whole(kb)
        if whole.head is None or whole.table is None:
            return whole
        if self._shares is None:  # what has been learnt last speaks alone
            if self.attention is not None and self.attention.epoch:
                return ProofsModel(self.config, kb, whole.head, whole.offsets)
            return ProofsModel(self.config, kb, None, None, whole.table)
        head, table = self._shares.of_head(whole.head), self._shares.of_table(whole.table)
        return ProofsModel(self.config, kb, head, whole.offsets * self._shares.attention, table)

    def checkpoint(self) -> Artifact:
        saved = checkpoint_parts(self.config, self._parts)
        shares = {} if self._shares is None else vars(self._shares)
        return Artifact(
            saved.manifest,
            saved.tensors | {f"shares.{name}": torch.from_numpy(share) for name, share in shares.items()},
        )

    def restore(self, checkpoint: Artifact) -> None:
        shares = {name: tensor.numpy() for name, tensor in under("shares.", checkpoint).items()}
        try:
            chosen = Shares(**shares) if shares else None
        except TypeError as error:
            raise ArtifactError(f"the checkpoint does not say what the shares of the parts are: {error}") from None
        restore_parts(checkpoint, self.config, self._parts)
        self._shares = chosen
