"""Batches drawn by playing a recorded draw again, beside training: the host looks at six numbers of each."""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from headtail.sampling.fixed import Fixed, FixedSampler
from headtail.sampling.fixed_sizes import positives_of, sizes_for
from headtail.sampling.numbering import Numbering
from headtail.sampling.padding import cloned, tensors_of
from headtail.sampling.sampler import Batch, BatchSampler, Work
from headtail.training.recording import recorder

LOG = logging.getLogger("headtail")


class RecordedDraw:
    """Draws batches of one size by playing a recording.

    Attributes:
        batch: where training reads them.
        drawn: what was drawn last.
    """

    def __init__(self, fixed: FixedSampler, play: Callable[[], Fixed], first: Fixed) -> None:
        self.fixed, self._play, self.drawn = fixed, play, first
        self.batch = cloned(first.batch)
        assert self.batch.places is not None
        self.pairs, self._place = self.batch.places.pairs, list(tensors_of(self.batch))

    def draw(self, number: int) -> None:
        """Draws the batch of that number."""
        self.fixed.number.fill_(number)
        self.drawn = self._play()

    def take(self) -> None:
        """Copies what was drawn to where training reads it."""
        torch._foreach_copy_(self._place, list(tensors_of(self.drawn.batch)))


class RecordedBatches:
    """Draws a batch while the last one is learned, each into the same memory as others of its size.

    A batch that does not fit its size is drawn once more in the next larger one, and after the last as it comes.

    Args:
        sampler: says what a batch is; it has `plans`.
        orders: makes the orders in which all epochs deal their items, to see how many positives batches have.
        seed: draws the batches that sizes are read off.
    """

    def __init__(self, sampler: BatchSampler, orders: Callable[[], Iterable[Tensor]], seed: int) -> None:
        self.sampler = sampler
        plans = sampler.plans
        assert plans is not None
        self.sizes = sizes_for(sampler, plans, orders(), seed)
        self.device = sampler.graph.device
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        self.on_gpu = self.device.type == "cuda"
        self._samplers = [FixedSampler(sampler, plans, sizes) for sizes in self.sizes]
        self._draws: list[RecordedDraw] = []
        self._draw: RecordedDraw | None = None
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
        rooms = [sizes.positives for sizes in self.sizes]
        sizes = [bisect_left(rooms, count) for count in positives_of(self.sampler, order).tolist()]
        self._start(order, generator.initial_seed())
        self._draw_beside(0, sizes[0])
        for number in range(len(self)):
            fits, positives, pairs, nodes, expanded, targets = self._wait(number, sizes[number])
            draw = self._draw
            assert draw is not None
            if fits:
                draw.take()
                self._note_taken()
            if number + 1 < len(self):
                self._draw_beside(number + 1, sizes[number + 1])
            if not fits:
                self.misfits += 1
                items = order[bounds[number] : bounds[number + 1]]
                yield self.sampler.batch(self.sampler.batches.positives(items), self._numbering, generator)
            elif positives:
                yield replace(
                    draw.batch,
                    positive=draw.pairs[:, :positives],
                    negative=draw.pairs[:, positives:pairs],
                    work=Work(pairs, nodes, expanded, targets),
                )
        if self.misfits > misfits:
            LOG.debug("%d of %d batches did not fit a recording and were learned without, which takes longer",
                      self.misfits - misfits, len(self))  # fmt: skip

    def draw_again(self) -> None:
        """Draws the first batch of the last epoch's order once more, on the current stream: for measurements."""
        assert self._draw is not None
        self._draw.draw(0)

    def _start(self, order: Tensor, seed: int) -> None:
        if not self._draws:
            self._draws = self._prepared(order)
        if self.on_gpu:
            self._beside.wait_stream(torch.cuda.current_stream(self.device))
        with self._aside():
            for draw in self._draws:
                draw.fixed.begin(order)
        self.generator.manual_seed(seed ^ 0x5DEECE66D)  # not the numbers that the order was made of

    def _prepared(self, order: Tensor) -> list[RecordedDraw]:
        """Draws a batch of each size as it comes, which compiles kernels and shows where batches go; then records."""
        if self.on_gpu:
            LOG.info("Recording batches of %d sizes; where kernels are compiled first, that takes half a minute once",
                     len(self._samplers))  # fmt: skip
        record, draws = recorder(self.device), []
        for fixed in self._samplers:
            fixed.begin(order)
            with self._aside():
                if self.on_gpu:
                    self._beside.wait_stream(torch.cuda.default_stream(self.device))
                first = fixed.draw(self.generator)
            if self.on_gpu:
                torch.cuda.current_stream(self.device).wait_stream(self._beside)
            play = record(lambda fixed=fixed: fixed.draw(self.generator), self.generator)  # type: ignore[misc]
            draws.append(RecordedDraw(fixed, play, first))
        return draws

    def _draw_beside(self, number: int, size: int) -> None:
        """Has a batch drawn, once the last one is taken."""
        self._draw = self._draws[size]
        with self._aside():
            self._draw.draw(number)
            self._facts.copy_(self._draw.drawn.facts, non_blocking=True)
            if self.on_gpu:
                self._drawn.record(self._beside)

    def _wait(self, number: int, size: int) -> list[int]:
        """Returns the facts of a batch that is being drawn; one that does not fit is drawn in larger sizes."""
        for larger in range(size, len(self._draws)):
            if larger > size:
                self._draw_beside(number, larger)
            if self.on_gpu:
                self._drawn.synchronize()
            if int(self._facts[0]):
                break
        found: list[int] = self._facts.tolist()
        return found

    def _note_taken(self) -> None:
        if self.on_gpu:
            self._taken.record()
            self._beside.wait_event(self._taken)

    def _aside(self) -> torch.cuda.StreamContext:
        return torch.cuda.stream(self._beside if self.on_gpu else None)
