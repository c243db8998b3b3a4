"""Steps of training recorded once and played again: a GPU then waits for no Python between its kernels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headtail.graph.message import MessageGraph
from headtail.sampling.padding import Capacity, cloned, padded, tensors_of
from headtail.sampling.sampler import Batch
from headtail.training.learner import EpochBatches
from headtail.training.recording import Record, recorder
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


@dataclass
class _Recording:
    """A recorded step, the batch that it reads, and the message graph that the batch was drawn from."""

    batch: Batch
    graph: MessageGraph | None
    play: Callable[[], Loss] | None = None


class CapturedStep(Step[Batch]):
    """Learns batches of known sizes by playing recorded steps again, and others as they come.

    Batches that are always in the same place are learned there; padded ones are copied to one. The first batch at a
    place is learned without recording, which compiles and allocates what a recording needs.
    """

    def __init__(
        self, loss: Callable[[Batch], Loss], optimizer: torch.optim.Optimizer, record: Record | None = None
    ) -> None:
        super().__init__(loss, optimizer)
        self._record = record
        self._recordings: dict[int, _Recording] = {}

    def __call__(self, batch: Batch) -> Loss:
        if batch.counts is None:
            return super().__call__(batch)
        stays = batch.work is not None  # what is drawn by recorded kernels is always in the same place
        place = id(batch.places) if stays else 0
        if place not in self._recordings:
            there = batch if stays else replace(cloned(batch), graph=_copied(batch.graph))
            self._recordings[place] = _Recording(there, batch.graph)
            return self._first(batch)
        recording = self._recordings[place]
        if not stays:
            _load(batch, recording)
        if recording.play is None:
            learn, there = super().__call__, recording.batch
            if self._record is None:
                self._record = recorder(batch.nodes.device)
            recording.play = self._record(lambda: learn(there))
        loss = recording.play()
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


def _load(batch: Batch, recording: _Recording) -> None:
    """Copies a batch, and its message graph where that is another one, to where the recorded step reads it."""
    torch._foreach_copy_(list(tensors_of(recording.batch)), list(tensors_of(batch)))
    if batch.graph is not recording.graph:
        assert batch.graph is not None
        assert recording.batch.graph is not None
        torch._foreach_copy_(_seen(recording.batch.graph), _seen(batch.graph))
        recording.graph = batch.graph


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
