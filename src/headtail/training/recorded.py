"""Batches drawn by playing a recorded draw again, beside training: the host looks at six numbers of each."""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from headtail.sampling.fixed import Fixed, FixedSampler
from headtail.sampling.fixed_sizes import positives_of, sizes_for
from headtail.sampling.numbering import Numbering
from headtail.sampling.padding import tensors_of
from headtail.sampling.sampler import Batch, BatchSampler, Work
from headtail.training.recording import Record, recorder

LOG = logging.getLogger("headtail")


class RecordedDraw:
    """Draws batches of one size by playing a recording, always into the same memory."""

    def __init__(self, fixed: FixedSampler, play: Callable[[], Fixed]) -> None:
        self.fixed, self._play = fixed, play
        self._drawn: Fixed | None = None

    @property
    def drawn(self) -> Fixed:
        """What was drawn last; there must have been a draw."""
        assert self._drawn is not None
        return self._drawn

    def draw(self, number: int) -> None:
        """Draws the batch of that number."""
        self.fixed.number.fill_(number)
        drawn = self._play()
        if self._drawn is None:
            self._drawn = drawn
        elif drawn is not self._drawn:  # a device that cannot record draws each batch elsewhere
            torch._foreach_copy_(list(_tensors(self._drawn)), list(_tensors(drawn)))


def _tensors(fixed: Fixed) -> Iterator[Tensor]:
    yield from tensors_of(fixed.batch)
    yield fixed.facts


class RecordedBatches:
    """Draws a batch while the last one is learned; the two take turns in two places for every size.

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
        self._turns: list[list[RecordedDraw]] = []
        self._draw: RecordedDraw | None = None
        self._numbering = Numbering(sampler.graph.num_nodes, self.device)
        self.misfits = 0
        if self.on_gpu:
            self._beside = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
            self._drawn = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._facts = torch.zeros(6, dtype=torch.int64, pin_memory=self.on_gpu)

    def __len__(self) -> int:
        return len(self.sampler)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yields the batches of one epoch; each is overwritten by the next but one."""
        misfits = self.misfits
        order = self.sampler.batches.order(generator)
        bounds = self.sampler.batches.bounds.tolist()
        rooms = [sizes.positives for sizes in self.sizes]
        # One that is larger than any epoch was to have is tried in the largest, and does not fit.
        counts = positives_of(self.sampler, order).tolist()
        sizes = [min(bisect_left(rooms, count), len(rooms) - 1) for count in counts]
        self._start(order, generator.initial_seed())
        self._draw_beside(0, sizes[0])
        for number in range(len(self)):
            fits, positives, pairs, nodes, expanded, targets = self._wait(number, sizes[number])
            draw = self._draw
            assert draw is not None
            if number + 1 < len(self):
                self._wait_for_training()
                self._draw_beside(number + 1, sizes[number + 1])
            if not fits:
                self.misfits += 1
                items = order[bounds[number] : bounds[number + 1]]
                yield self.sampler.batch(self.sampler.batches.positives(items), self._numbering, generator)
            elif positives:
                batch = draw.drawn.batch
                yield replace(
                    batch,
                    positive=batch.pairs.pairs[:, :positives],
                    negative=batch.pairs.pairs[:, positives:pairs],
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
        if not self._turns:
            self._turns = self._prepared(order)
        if self.on_gpu:
            self._beside.wait_stream(torch.cuda.current_stream(self.device))
        with self._aside():
            for fixed in self._samplers:
                fixed.begin(order)
        self.generator.manual_seed(seed ^ 0x5DEECE66D)  # not the numbers that the order was made of

    def _prepared(self, order: Tensor) -> list[list[RecordedDraw]]:
        """Draws a batch of each size as it comes, which compiles kernels; then records."""
        if self.on_gpu:
            LOG.info("Recording batches of %d sizes; where kernels are compiled first, that takes half a minute once",
                     len(self._samplers))  # fmt: skip
            self._beside.wait_stream(torch.cuda.current_stream(self.device))
            with self._aside():
                for fixed in self._samplers:
                    fixed.begin(order)
                    fixed.draw(self.generator)
            torch.cuda.current_stream(self.device).wait_stream(self._beside)
        # Recordings of a turn share memory; those of the other one may be read meanwhile.
        return [self._recorded(recorder(self.device)) for _ in range(2)]

    def _recorded(self, record: Record) -> list[RecordedDraw]:
        """Returns a draw for every size."""

        def draw(fixed: FixedSampler) -> Fixed:
            return fixed.draw(self.generator)

        return [RecordedDraw(fixed, record(partial(draw, fixed), self.generator)) for fixed in self._samplers]

    def _draw_beside(self, number: int, size: int) -> None:
        """Has a batch drawn."""
        self._draw = self._turns[number % 2][size]
        with self._aside():
            self._draw.draw(number)
            self._facts.copy_(self._draw.drawn.facts, non_blocking=True)
            if self.on_gpu:
                self._drawn.record(self._beside)

    def _wait(self, number: int, size: int) -> list[int]:
        """Returns the facts of a batch that is being drawn; one that does not fit is drawn in larger sizes."""
        for larger in range(size, len(self._samplers)):
            if larger > size:
                self._draw_beside(number, larger)
            if self.on_gpu:
                self._drawn.synchronize()
            if int(self._facts[0]):
                break
        found: list[int] = self._facts.tolist()
        return found

    def _wait_for_training(self) -> None:
        """Has the next draw wait until all that was yielded so far is learned: it may be where that is to go."""
        if self.on_gpu:
            self._beside.wait_stream(torch.cuda.current_stream(self.device))

    def _aside(self) -> torch.cuda.StreamContext:
        return torch.cuda.stream(self._beside if self.on_gpu else None)
