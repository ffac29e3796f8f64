"""Trains several trainers one after the other as one training: its progress, its checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ctp_core.artifact import Artifact
from ctp_core.base.config import BaseConfig
from ctp_core.base.model import Model
from ctp_core.base.progress import OnStep, Progress, share_done
from ctp_core.base.trainer import Trainer
from ctp_core.base.training_state import check_config, under
from ctp_core.errors import ArtifactError


@dataclass(frozen=True)
class TrainingPart:
    """One of the trainers, and where it lies within the whole training."""

    whole: Trainer[Model]
    trainer: Trainer[Model]
    before: int  # epochs of the whole that come before those of this part
    behind: float  # the share of all forecast work that comes before this part
    ahead: float  # the share that this part takes
    prefix: str = ""  # of its metrics

    def train_epoch(self, on_step: OnStep) -> Progress:
        """Trains one epoch of this part; tells how far the whole training is."""
        return self._of_whole(self.trainer.train_epoch(lambda step: on_step(self._of_whole(step))))

    def _of_whole(self, progress: Progress) -> Progress:
        return replace(
            progress,
            epoch=self.before + progress.epoch,
            epochs=self.whole.epochs,
            metrics={f"{self.prefix}{metric}": value for metric, value in progress.metrics.items()},
            done=self.behind + self.ahead * share_done(progress),
        )


def checkpoint_parts(config: BaseConfig, parts: Mapping[str, Trainer[Model]]) -> Artifact:
    """The checkpoint of a training with this config and these parts by name."""
    saved = {name: part.checkpoint() for name, part in parts.items()}
    manifests = {name: artifact.manifest for name, artifact in saved.items()}
    tensors = {f"{name}.{key}": tensor for name, artifact in saved.items() for key, tensor in artifact.tensors.items()}
    return Artifact({"config": config.model_dump(mode="json"), "parts": manifests}, tensors)


def restore_parts(checkpoint: Artifact, config: BaseConfig, parts: Mapping[str, Trainer[Model]]) -> None:
    """Restores every part, or none where one is missing; raises ArtifactError."""
    check_config(checkpoint, config)
    try:
        saved = {name: Artifact(checkpoint.manifest["parts"][name], under(f"{name}.", checkpoint)) for name in parts}
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"the checkpoint has no part {error}") from None
    for name, part in parts.items():
        part.restore(saved[name])
