"""One step of training, and the losses of many, read without making a GPU wait."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from headtail.errors import TrainingError
from headtail.kernels.launch import engine

B = TypeVar("B")


@dataclass(frozen=True)
class Loss:
    """The loss of a batch, the positives it was taken over, and the scores to look at if it is not finite."""

    value: Tensor
    links: int
    scores: Tensor


class Step(Generic[B]):
    """Learns a batch: loss, gradients, optimiser."""

    def __init__(self, loss: Callable[[B], Loss], optimizer: torch.optim.Optimizer) -> None:
        self.loss, self.optimizer = loss, optimizer

    def __call__(self, batch: B) -> Loss:
        """Takes the step and returns the loss before it."""
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.value.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return Loss(loss.value.detach(), loss.links, loss.scores.detach())


@dataclass(frozen=True)
class Told:
    """The loss of a batch that is over."""

    batch: int
    links: int
    value: float


class LossLog:
    """Tells losses when they are there: at once, or some steps later where a GPU need not wait for it.

    Args:
        batches: how many there are at most.
        device: where losses are computed.
    """

    def __init__(self, batches: int, device: torch.device) -> None:
        self.later = engine(device)
        self.values = torch.empty(batches, pin_memory=self.later)
        self.waiting: deque[tuple[int, Loss, torch.cuda.Event | None]] = deque()

    def add(self, batch: int, loss: Loss) -> None:
        self.values[batch - 1].copy_(loss.value, non_blocking=True)
        event = None
        if self.later:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        self.waiting.append((batch, loss, event))

    def told(self, wait: bool = False) -> Iterator[Told]:
        """Yields the losses that are there, in their order; all of them if it may `wait`.

        Raises:
            TrainingError: one is not a number.
        """
        while self.waiting:
            batch, loss, event = self.waiting[0]
            if event is not None:
                if not wait and not event.query():  # type: ignore[no-untyped-call]
                    return
                event.synchronize()
            self.waiting.popleft()
            value = float(self.values[batch - 1])
            if not math.isfinite(value):
                raise TrainingError(describe_failure(batch, value, loss))
            yield Told(batch, loss.links, value)


def describe_failure(batch: int, value: float, loss: Loss) -> str:
    """Says what is known about the batch whose loss is not a number."""
    broken = int((~torch.isfinite(loss.scores)).sum())
    return (
        f"the loss became {value} in batch {batch}: {loss.links:,} positives, "
        f"{loss.scores.numel():,} scores of which {broken:,} are not finite"
    )
