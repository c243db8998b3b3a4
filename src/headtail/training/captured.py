"""Steps of training recorded once and played again: a GPU then waits for no Python between its kernels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headtail.graph.message import MessageGraph
from headtail.sampling.padding import Capacity, cloned, padded, tensors_of
from headtail.sampling.sampler import Batch
from headtail.training.learner import EpochBatches
from headtail.training.recorded import Record, recorded
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

    def __init__(
        self, loss: Callable[[Batch], Loss], optimizer: torch.optim.Optimizer, record: Record[Loss] = recorded
    ) -> None:
        super().__init__(loss, optimizer)
        self._record = record
        self._play: Callable[[], Loss] | None = None
        self._batch: Batch | None = None
        self._graph: MessageGraph | None = None

    def __call__(self, batch: Batch) -> Loss:
        if batch.counts is None:
            return super().__call__(batch)
        if self._batch is None:
            # What is drawn by recorded kernels is always in the same place.
            stays = batch.work is not None
            self._batch = batch if stays else replace(cloned(batch), graph=_copied(batch.graph))
            self._graph = batch.graph
            return self._first(batch)
        if batch.places is not self._batch.places:
            self._load(batch)
        if self._play is None:
            place, learn = self._batch, super().__call__
            self._play = self._record(lambda: learn(place), None)
        loss = self._play()
        # The next step overwrites what this one returned.
        return Loss(loss.value.clone(), batch.positive.shape[1], loss.scores)

    def _first(self, batch: Batch) -> Loss:
        """Learns on a stream of its own: what autograd remembers of streams would disturb the recording."""
        if not batch.nodes.is_cuda:
            return super().__call__(batch)
        aside, here = torch.cuda.Stream(), torch.cuda.current_stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            loss = super().__call__(batch)
        here.wait_stream(aside)
        return loss

    def _load(self, batch: Batch) -> None:
        """Copies a batch, and its message graph where that is another one, to where the recorded step reads it."""
        assert self._batch is not None
        torch._foreach_copy_(list(tensors_of(self._batch)), list(tensors_of(batch)))
        if batch.graph is not self._graph:
            assert batch.graph is not None
            assert self._batch.graph is not None
            torch._foreach_copy_(_seen(self._batch.graph), _seen(batch.graph))
            self._graph = batch.graph


def _seen(graph: MessageGraph) -> list[Tensor]:
    """What an encoder reads of a message graph besides the sampled neighbourhoods."""
    tables = [graph.features, graph.pre_encoded, *([graph.residual] if "residual" in graph.__dict__ else [])]
    seen = [table for table in tables if isinstance(table, Tensor)]
    assert len(seen) == len(tables), "a step that reads host memory is not recorded"
    return seen


def _copied(graph: MessageGraph | None) -> MessageGraph | None:
    if graph is None:
        return None
    features, pre_encoded, *residual = (table.clone() for table in _seen(graph))
    copy = replace(graph, features=features)
    copy.__dict__["pre_encoded"] = pre_encoded
    if residual:
        copy.__dict__["residual"] = residual[0]
    return copy
