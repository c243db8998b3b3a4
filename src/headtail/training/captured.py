"""Steps of training recorded once and played again: a GPU then waits for no Python between its kernels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headtail.graph.message import MessageGraph
from headtail.sampling.padding import Capacity, cloned, padded, tensors_of
from headtail.sampling.sampler import Batch
from headtail.training.learner import EpochBatches
from headtail.training.steps import Loss, Step

# Batches that are drawn to see how large they are; sizes are rounded up to multiples of UNIT after adding SLACK.
PROBES, SLACK, UNIT = 4, 0.05, 256


@dataclass(frozen=True)
class PaddedBatches:
    """Batches padded to one capacity; one that is larger is left as it is.

    The capacity is found from batches drawn with a seed of its own. So it is the same in every run, whatever epoch it
    starts with.
    """

    batches: EpochBatches[Batch]
    capacity: Capacity

    @staticmethod
    def around(batches: EpochBatches[Batch], seed: int, device: torch.device) -> "PaddedBatches":
        """Draws a few batches and takes a capacity that would hold them with some slack."""
        generator = torch.Generator(device=device).manual_seed(seed)
        capacity: Capacity | None = None
        for _, batch in zip(range(PROBES), batches.epoch(generator), strict=False):
            size = Capacity.of(batch)
            capacity = size if capacity is None else capacity.roomier(size, 0.0, 1)
        assert capacity is not None
        return PaddedBatches(batches, capacity.roomier(capacity, SLACK, UNIT))

    def __len__(self) -> int:
        return len(self.batches)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        for batch in self.batches.epoch(generator):
            yield padded(batch, self.capacity) if self.capacity.holds(Capacity.of(batch)) else batch


class CapturedStep(Step[Batch]):
    """Learns padded batches by playing a recorded step again, and others as they come.

    The first padded batch is learned without recording, which compiles and allocates what a recording needs.
    """

    def __init__(self, loss: Callable[[Batch], Loss], optimizer: torch.optim.Optimizer) -> None:
        super().__init__(loss, optimizer)
        self._recording: torch.cuda.CUDAGraph | None = None
        self._batch: Batch | None = None
        self._graph: MessageGraph | None = None
        self._loss: Loss | None = None

    def __call__(self, batch: Batch) -> Loss:
        if batch.counts is None:
            return super().__call__(batch)
        links = batch.positive.shape[1]
        if self._batch is None:
            self._batch = replace(cloned(batch), graph=_copied(batch.graph))
            self._graph = batch.graph
            return super().__call__(batch)
        self._load(batch)
        if self._recording is None:
            self._record()
        assert self._recording is not None
        assert self._loss is not None
        self._recording.replay()
        # The recorded loss is overwritten by the next step.
        return Loss(self._loss.value.detach().clone(), links, self._loss.scores)

    def _load(self, batch: Batch) -> None:
        """Copies a batch, and its message graph where that is another one, to where the recorded step reads it."""
        assert self._batch is not None
        torch._foreach_copy_(list(tensors_of(self._batch)), list(tensors_of(batch)))
        if batch.graph is not self._graph:
            assert batch.graph is not None
            assert self._batch.graph is not None
            torch._foreach_copy_(_seen(self._batch.graph), _seen(batch.graph))
            self._graph = batch.graph

    def _record(self) -> None:
        assert self._batch is not None
        self.optimizer.zero_grad(set_to_none=True)
        recording = torch.cuda.CUDAGraph()
        # Batches are drawn in another thread meanwhile, which must not disturb the recording.
        with torch.cuda.graph(recording, capture_error_mode="thread_local"):
            loss = self.loss(self._batch)
            loss.value.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        self._recording, self._loss = recording, loss


def _seen(graph: MessageGraph) -> list[Tensor]:
    """What an encoder reads of a message graph besides the sampled neighbourhoods."""
    return [graph.features, graph.pre_encoded]


def _copied(graph: MessageGraph | None) -> MessageGraph | None:
    if graph is None:
        return None
    copy = replace(graph, features=graph.features.clone())
    copy.__dict__["pre_encoded"] = graph.pre_encoded.clone()
    return copy
