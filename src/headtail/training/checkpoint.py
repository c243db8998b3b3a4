"""Checkpoints: everything needed to go on after an epoch as if nothing had happened, without pickle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from headtail.errors import RunError
from headtail.files import read_tensors, write_tensors
from headtail.run_files import CHECKPOINT_FILE, MODEL_FILE
from headtail.training.averaging import WeightAverage
from headtail.training.counters import COUNTERS
from headtail.training.observer import Record


@dataclass
class Progress:
    """How far training is: epochs done, their records, and the best validation epoch with its weights."""

    epoch: int = 0
    history: list[Record] = field(default_factory=list)
    best_epoch: int = 0
    best_value: float = float("-inf")
    best_weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointStore:
    """Reads and writes the checkpoint of one run folder.

    `fingerprint` names the graph and `settings` the configuration; a checkpoint of others is refused.
    """

    folder: Path
    fingerprint: str
    settings: str
    name: str = CHECKPOINT_FILE

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def save(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        average: WeightAverage | None = None,
    ) -> None:
        """Writes weights, their average, optimiser state, history and best weights as one file."""
        tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
        if average is not None:
            tensors |= {f"average/{name}": tensor for name, tensor in average.state().items()}
        tensors |= {f"best/{name}": tensor for name, tensor in progress.best_weights.items()}
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"adam/{index}/{name}": tensor for name, tensor in state.items()}
        facts = {
            "fingerprint": self.fingerprint,
            "settings": self.settings,
            "epoch": progress.epoch,
            "history": progress.history,
            "best_epoch": progress.best_epoch,
            "best_value": progress.best_value,
        }
        write_tensors(self.path, tensors, facts)

    def load(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage | None = None
    ) -> Progress:
        """Restores model, average and optimiser in place and returns the progress.

        Raises:
            RunError: there is no checkpoint, or it is damaged, or belongs to another graph or configuration.
        """
        tensors, facts = read_tensors(self.path)
        if facts.get("fingerprint") != self.fingerprint:
            raise RunError(f"{self.path} was trained on another graph; give the graph of that run, or another --out.")
        if facts.get("settings") != self.settings:
            raise RunError(
                f"{self.path} was trained with other settings; resume with those in {self.folder / 'config.yaml'}."
            )
        try:
            device = next(model.parameters()).device
            model.load_state_dict(_part(tensors, "model/"))
            _check_shapes(_part(tensors, "best/"), model.state_dict())
            if average is not None:
                average.restore(_part(tensors, "average/"))
            state: dict[int, dict[str, Tensor]] = {}
            for name, tensor in _part(tensors, "adam/").items():
                index, key = name.split("/")
                state.setdefault(int(index), {})[key] = tensor
            _check_optimizer(state, optimizer)
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": state, "param_groups": groups})
            best = {name: tensor.to(device) for name, tensor in _part(tensors, "best/").items()}
            history = checked_history(facts["history"])
            epoch, best_epoch = int(str(facts["epoch"])), int(str(facts["best_epoch"]))
            if not 0 < best_epoch <= epoch == len(history):
                raise ValueError(f"epoch {best_epoch} cannot be the best of {epoch}, {len(history)} of which are told")
            return Progress(epoch, history, best_epoch, float(str(facts["best_value"])), best)
        except (RuntimeError, KeyError, ValueError) as error:
            raise RunError(f"{self.path} does not fit the model it should restore ({error}).") from error


def checked_history(history: object) -> list[Record]:
    """Returns the records of epochs that a file brings; what is summed up and shown of them must be numbers.

    Raises:
        ValueError: they are none.
    """
    if not isinstance(history, list) or not all(isinstance(record, dict) for record in history):
        raise ValueError("its history is no list of epochs")
    for record in history:
        for name in ("epoch", "loss", "seconds", *COUNTERS):
            if not isinstance(record.get(name, 0), int | float):
                raise ValueError(f"{name} of an epoch is no number")
        if "seconds" not in record:
            raise ValueError("an epoch does not say how many seconds it took")
    return history


def _check_shapes(found: dict[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Checks that tensors have the names and shapes of others, or that there are none.

    Raises:
        ValueError: they have not.
    """
    if found and {name: t.shape for name, t in found.items()} != {name: t.shape for name, t in wanted.items()}:
        raise ValueError("the best weights are those of another model")


def _check_optimizer(state: dict[int, dict[str, Tensor]], optimizer: torch.optim.Optimizer) -> None:
    """Checks what torch does not: that the state of every weight is Adam's, and of its shape.

    Raises:
        ValueError: it is not.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for place, parts in state.items():
        shapes = {name: tensor.shape for name, tensor in parts.items()}
        whole = dict.fromkeys(("exp_avg", "exp_avg_sq"), weights[place].shape) if 0 <= place < len(weights) else {}
        if shapes != {"step": torch.Size(), **whole}:
            raise ValueError(f"the optimiser's state of weight {place} is not that of such a weight")


def save_model(
    folder: Path, weights: dict[str, Tensor], fingerprint: str, best_epoch: int, name: str = MODEL_FILE
) -> None:
    """Writes the weights of the best epoch."""
    write_tensors(folder / name, weights, {"fingerprint": fingerprint, "best_epoch": best_epoch})


def load_model(folder: Path, fingerprint: str, name: str = MODEL_FILE) -> tuple[dict[str, Tensor], int]:
    """Reads what `save_model` wrote: weights and the epoch they are from.

    Raises:
        RunError: the file is missing, damaged, or belongs to another graph.
    """
    path = folder / name
    weights, facts = read_tensors(path)
    if facts.get("fingerprint") != fingerprint:
        raise RunError(f"{path} was trained on another graph than the one in {folder}.")
    try:
        return weights, int(str(facts.get("best_epoch", 0)))
    except ValueError as error:
        raise RunError(f"{path} is damaged ({error}); restore it from a copy, or train again.") from error


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
