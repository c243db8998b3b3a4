"""A running average of the weights: it ranks more steadily than the weights of any one step."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Keeps an exponential average of all floating-point weights and statistics of a model.

    Args:
        model: the model that is trained.
        keep: what the average keeps of itself at a step; less in the first steps, so that it forgets the start.
    """

    def __init__(self, model: nn.Module, keep: float) -> None:
        self.keep, self.steps = keep, 0
        self._current = [tensor for tensor in model.state_dict().values() if tensor.is_floating_point()]
        self._average = [tensor.clone() for tensor in self._current]

    @torch.no_grad()
    def update(self) -> None:
        """Takes in the weights after a step."""
        keep = min(self.keep, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        torch._foreach_lerp_(self._average, self._current, 1 - keep)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Lends the average to the model, and gives the weights back."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for mine, theirs in zip(self._average, self._current, strict=True):
            kept = theirs.clone()
            theirs.copy_(mine)
            mine.copy_(kept)

    def state(self) -> dict[str, Tensor]:
        """Returns what a checkpoint needs."""
        numbered = {str(place): tensor for place, tensor in enumerate(self._average)}
        return numbered | {"steps": torch.tensor(self.steps)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Takes what `state` returned.

        Raises:
            KeyError: something is missing.
            RuntimeError: the shapes are those of another model.
        """
        for place, tensor in enumerate(self._average):
            tensor.copy_(state[str(place)])
        self.steps = int(state["steps"])
