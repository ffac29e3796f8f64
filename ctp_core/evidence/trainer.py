"""Trains the engine: mines rules and fits their weights, learns attention, then chooses the share of each part."""

from collections.abc import Callable
from dataclasses import replace

import torch

from ctp_core.artifact import Artifact
from ctp_core.base.evaluation import known_filters, rank_facts, ranking_metrics
from ctp_core.base.facts_trainer import CalibratedTrainer
from ctp_core.base.progress import OnStep, Progress, ignore, parts_of, share_done
from ctp_core.base.training_state import check_config, under
from ctp_core.errors import ArtifactError
from ctp_core.evidence.attention_model import ProofsModel
from ctp_core.evidence.attention_trainer import AttentionTrainer
from ctp_core.evidence.config import ProofsConfig
from ctp_core.evidence.cost import attention_seconds, mining_seconds
from ctp_core.evidence.rules_trainer import VALIDATION, RulesTrainer
from ctp_core.evidence.shares import Shares, choose_shares
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.kb.splits import FactsSplit, affordable

CHOOSING = 1000  # validation facts that choose the shares
SHARING = 0.05  # of the work, by which the time left is told: choosing the shares and the last validation
PARTS = ("mined", "attention")


def evidence_trainer(config: ProofsConfig, kb: FactsKB, device: torch.device) -> "EvidenceTrainer | AttentionTrainer":
    """The trainer of attention alone where nothing is mined."""
    return EvidenceTrainer(config, kb, device) if config.mined else AttentionTrainer(config, kb, device)


class EvidenceTrainer(CalibratedTrainer):
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
    def finished(self) -> bool:
        return self.mined.finished and (self.attention is None or self._shares is not None)

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        if not self.mined.finished:
            progress = self._train(self.mined, 0, on_step)
            if self.attention is not None:
                return progress
            metrics = {name.removeprefix("mined_"): value for name, value in progress.metrics.items()}
            return replace(progress, metrics=metrics)
        assert self.attention is not None
        if not self.attention.finished:
            return self._train(self.attention, self.mined.epochs, on_step)
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

    def _train(self, part: RulesTrainer | AttentionTrainer, before: int, on_step: OnStep) -> Progress:
        name = PARTS[part is self.attention]

        behind, ahead = self._work(part)

        def shifted(progress: Progress) -> Progress:
            metrics = {f"{name}_{metric}": value for metric, value in progress.metrics.items()}
            done = behind + ahead * share_done(progress)
            return replace(progress, epoch=before + progress.epoch, epochs=self.epochs, metrics=metrics, done=done)

        return shifted(part.train_epoch(lambda step: on_step(shifted(step))))

    def _work(self, part: RulesTrainer | AttentionTrainer) -> tuple[float, float]:
        """The shares of the forecast work that lie before a part and in it."""
        if self.attention is None:
            return 0.0, 1.0
        mined, attention = mining_seconds(self.config, self._profile), attention_seconds(self.config, self._profile)
        share = (1 - SHARING) * mined / (mined + attention)
        return (0.0, share) if part is self.mined else (share, 1 - SHARING - share)

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
        parts = {"mined": self.mined.checkpoint()}
        if self.attention is not None:
            parts["attention"] = self.attention.checkpoint()
        manifests = {part: artifact.manifest for part, artifact in parts.items()}
        manifest = {"config": self.config.model_dump(mode="json"), "parts": manifests}
        tensors = {f"{part}.{name}": tensor for part, a in parts.items() for name, tensor in a.tensors.items()}
        if self._shares is not None:
            tensors |= {f"shares.{name}": torch.from_numpy(share) for name, share in vars(self._shares).items()}
        return Artifact(manifest, tensors)

    def restore(self, checkpoint: Artifact) -> None:
        check_config(checkpoint, self.config)
        parts: dict[str, Callable[[Artifact], None]] = {"mined": self.mined.restore}
        if self.attention is not None:
            parts["attention"] = self.attention.restore
        try:
            found = {
                part: Artifact(checkpoint.manifest["parts"][part], under(f"{part}.", checkpoint)) for part in parts
            }
            shares = {name: tensor.numpy() for name, tensor in under("shares.", checkpoint).items()}
            self._shares = Shares(**shares) if shares else None
        except (KeyError, TypeError) as error:
            raise ArtifactError(f"the checkpoint of a model of proofs has no {error}") from None
        for part, restore in parts.items():
            restore(found[part])
