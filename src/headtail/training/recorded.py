"""Batches drawn by playing a recorded draw again, beside training: the host looks at six numbers of each."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from headtail.sampling.fixed import Fixed, FixedSampler
from headtail.sampling.fixed_sizes import sizes_for
from headtail.sampling.numbering import Numbering
from headtail.sampling.padding import cloned, tensors_of
from headtail.sampling.sampler import Batch, BatchSampler, Work

LOG = logging.getLogger("headtail")

T = TypeVar("T")
# Does some work once, and returns what does it again; what the work returns may be overwritten each time.
Record = Callable[[Callable[[], T], torch.Generator | None], Callable[[], T]]


def recorded(work: Callable[[], T], generator: torch.Generator | None = None) -> Callable[[], T]:
    """Records the kernels of some work as a CUDA graph, without running them, and returns what plays them.

    The work draws random numbers from `generator` alone, which may be seeded anew between plays; such work is drawing,
    which gives way to other work.
    """
    recording = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(priority=0 if generator is not None else -1)  # type: ignore[no-untyped-call]
    if generator is not None:
        recording.register_generator_state(generator)
    # Other threads and streams go on meanwhile, and must not disturb the recording.
    with torch.cuda.graph(recording, stream=stream, capture_error_mode="thread_local"):
        result = work()

    def play() -> T:
        recording.replay()
        return result

    return play


def repeated(work: Callable[[], T], generator: torch.Generator | None = None) -> Callable[[], T]:
    """Returns what does the work again, without a recording: for devices that cannot record."""
    return work


def recorder(device: torch.device) -> Record[T]:
    """Returns what records work on that device."""
    return recorded if device.type == "cuda" else repeated


class RecordedBatches:
    """Draws a batch while the last one is learned, each into the same memory.

    A batch that does not fit is drawn once more, as it comes.

    Args:
        sampler: says what a batch is; it has `plans`.
        orders: makes the orders in which all epochs deal their items, to see how many positives a batch can have.
        seed: draws the batches that sizes are read off.
    """

    def __init__(self, sampler: BatchSampler, orders: Callable[[], Iterable[Tensor]], seed: int) -> None:
        self.sampler = sampler
        plans = sampler.plans
        assert plans is not None
        self.fixed = FixedSampler(sampler, plans, sizes_for(sampler, plans, orders(), seed))
        self.device = sampler.graph.device
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        self.on_gpu = self.device.type == "cuda"
        self._play: Callable[[], Fixed] | None = None
        self._next: Fixed | None = None
        self._numbering = Numbering(sampler.graph.num_nodes, self.device)
        self.misfits = 0
        if self.on_gpu:
            self._beside = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
            self._drawn, self._taken = (torch.cuda.Event() for _ in range(2))  # type: ignore[no-untyped-call]
        self._facts = torch.zeros(6, dtype=torch.int64, pin_memory=self.on_gpu)

    def __len__(self) -> int:
        return len(self.sampler)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yields the batches of one epoch; each is overwritten by the next."""
        misfits = self.misfits
        order = self.sampler.batches.order(generator)
        bounds = self.sampler.batches.bounds.tolist()
        self._start(order, generator.initial_seed())
        for number in range(len(self)):
            fits, positives, pairs, nodes, expanded, targets = self._wait()
            if fits:
                self._take()
            if number + 1 < len(self):
                self._draw_next()
            if not fits:
                self.misfits += 1
                items = order[bounds[number] : bounds[number + 1]]
                yield self.sampler.batch(self.sampler.batches.positives(items), self._numbering, generator)
            elif positives:
                yield replace(
                    self._batch,
                    positive=self._pairs[:, :positives],
                    negative=self._pairs[:, positives:pairs],
                    work=Work(pairs, nodes, expanded, targets),
                )
        if self.misfits > misfits:
            LOG.info("%d of %d batches did not fit a recording and were learned without, which takes longer",
                     self.misfits - misfits, len(self))  # fmt: skip

    def draw_again(self) -> None:
        """Draws the first batch of the last epoch's order once more, on the current stream: for measurements."""
        assert self._play is not None
        self.fixed.number.zero_()
        self._play()

    def _start(self, order: Tensor, seed: int) -> None:
        if self._play is None:
            self._prepare(order)
        if self.on_gpu:
            self._beside.wait_stream(torch.cuda.current_stream(self.device))
        with self._aside():
            self.fixed.begin(order)
        self.generator.manual_seed(seed ^ 0x5DEECE66D)  # not the numbers that the order was made of
        self._draw_next()

    def _prepare(self, order: Tensor) -> None:
        """Draws a batch as it comes, which compiles kernels and shows where batches go; then records."""
        self.fixed.begin(order)
        with self._aside():
            if self.on_gpu:
                self._beside.wait_stream(torch.cuda.default_stream(self.device))
            first = self.fixed.draw(self.generator)
        if self.on_gpu:
            torch.cuda.current_stream(self.device).wait_stream(self._beside)
        self._batch = cloned(first.batch)
        assert self._batch.places is not None
        self._pairs, self._place = self._batch.places.pairs, list(tensors_of(self._batch))
        record: Record[Fixed] = recorder(self.device)
        self._play = record(lambda: self.fixed.draw(self.generator), self.generator)

    def _draw_next(self) -> None:
        """Has the next batch drawn, once the last one is taken."""
        assert self._play is not None
        with self._aside():
            self._next = self._play()
            self._facts.copy_(self._next.facts, non_blocking=True)
            if self.on_gpu:
                self._drawn.record(self._beside)

    def _wait(self) -> list[int]:
        if self.on_gpu:
            self._drawn.synchronize()
        found: list[int] = self._facts.tolist()
        return found

    def _take(self) -> None:
        """Copies the drawn batch to where training reads it."""
        assert self._next is not None
        torch._foreach_copy_(self._place, list(tensors_of(self._next.batch)))
        if self.on_gpu:
            self._taken.record()
            self._beside.wait_event(self._taken)

    def _aside(self) -> torch.cuda.StreamContext:
        return torch.cuda.stream(self._beside if self.on_gpu else None)
