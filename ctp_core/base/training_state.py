"""What is in a checkpoint of training by gradient, so that it resumes to the same bits: copied out, put back.

`checkpoint` of a trainer adds the manifest (`training_loop.py`; trainers of several parts have their own),
`artifact.py` makes bytes of both, and `worker/checkpoints.py` decides when they are stored and where.
"""

import torch
from torch import Tensor, nn

from ctp_core.artifact import Artifact
from ctp_core.base.config import BaseConfig
from ctp_core.errors import ArtifactError

State = dict[str, Tensor]


def same_config(checkpoint: Artifact, config: BaseConfig) -> bool:
    """Whether a checkpoint was written with these settings; settings it does not name count as their defaults."""
    try:
        return type(config).stored(checkpoint.manifest["config"]) == config
    except (KeyError, ValueError):
        return False


def check_config(checkpoint: Artifact, config: BaseConfig) -> None:
    """Raises ArtifactError on a checkpoint of other settings."""
    if not same_config(checkpoint, config):
        raise ArtifactError("the checkpoint was written by a run with another config")


def state_tensors(
    module: nn.Module, best: State, optimiser: torch.optim.Optimizer, generator: torch.Generator
) -> State:
    """Copies on the CPU: the present weights, the best ones, the optimiser's state, the random state."""
    tensors = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    for index, slots in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{slot}": value for slot, value in slots.items()}
    tensors["generator"] = generator.get_state()
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def restore_tensors(
    checkpoint: Artifact, module: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
) -> State:
    """Restores what `state_tensors` copied and returns the best weights.

    Raises KeyError, RuntimeError or ValueError where the checkpoint does not fit.
    """
    module.load_state_dict(under("module.", checkpoint))
    _restore_optimiser(optimiser, under("optimiser.", checkpoint))
    generator.set_state(checkpoint.tensors["generator"])
    device = next(module.parameters()).device
    return {name: tensor.to(device) for name, tensor in under("best.", checkpoint).items()}


def _restore_optimiser(optimiser: torch.optim.Optimizer, slots: State) -> None:
    state = optimiser.state_dict()
    state["state"] = {}
    for name, value in slots.items():
        index, slot = name.split(".", 1)
        state["state"].setdefault(int(index), {})[slot] = value.clone()
    optimiser.load_state_dict(state)


def under(prefix: str, artifact: Artifact) -> State:
    """The tensors whose names start with `prefix`, without it."""
    return {name.removeprefix(prefix): t for name, t in artifact.tensors.items() if name.startswith(prefix)}
