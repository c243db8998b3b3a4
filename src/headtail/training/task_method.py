"""What is trained, saved and loaded: a method made for one task."""

from abc import abstractmethod

import torch
from torch import Tensor

from headtail.contract import Method, Scorer, Validate
from headtail.graph.task import LinkTask
from headtail.graph.view import GraphView
from headtail.training.checkpoint import CheckpointStore, Progress
from headtail.training.observer import Observer


class TaskMethod(Method):
    """A method made for one task, with weights (perhaps none) that a run folder can hold."""

    task: LinkTask
    device: torch.device
    # Epochs that a complete training has; 0 for methods that learn nothing.
    epochs: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about training before it takes time, one sentence each."""
        return ()

    @property
    @abstractmethod
    def summary(self) -> str:
        """Says in half a line what the method is, for model cards."""

    def weights(self) -> dict[str, Tensor]:
        """Returns a copy of everything that was learned."""
        return {}

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Takes weights that `weights` returned.

        Raises:
            RuntimeError: they are those of another model.
        """
        if weights:
            raise RuntimeError(f"{self.summary} learns nothing, but {len(weights)} tensors are given")

    def fit(
        self,
        validate: Validate | None,
        observer: Observer | None = None,
        checkpoints: CheckpointStore | None = None,
        resume: bool = False,
    ) -> Progress:
        """Learns, and keeps the best validation epoch; without `validate` the last one."""
        return Progress()


class Untrained(TaskMethod):
    """A method without parameters, such as a heuristic."""

    def __init__(self, task: LinkTask, method: Method) -> None:
        self.task, self.method = task, method
        self.device = torch.device("cpu")

    @property
    def summary(self) -> str:
        text = (self.method.__doc__ or "").strip().split("\n")[0].rstrip(".")
        return text[:1].lower() + text[1:]

    def encode(self, view: GraphView) -> Scorer:
        return self.method.scorer(view)
