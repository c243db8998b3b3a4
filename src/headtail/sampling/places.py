"""Pairs as places in a batch, and which pairs each place is in."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from headtail.graph.csr import CSR, row_pointers


@dataclass(frozen=True)
class PairPlaces:
    """Pairs [2, P] of a place among a batch's rows and one among its columns.

    Their grouping by either end, which a backward pass sums over, is found once.
    """

    pairs: Tensor
    _groups: dict[tuple[int, int], CSR] = field(default_factory=dict, repr=False, compare=False)

    @property
    def left(self) -> Tensor:
        return self.pairs[0]

    @property
    def right(self) -> Tensor:
        return self.pairs[1]

    def by_left(self, rows: int) -> CSR:
        """Returns, for each of so many rows, the numbers of the pairs that it is the left end of."""
        return self._grouped(0, rows)

    def by_right(self, columns: int) -> CSR:
        return self._grouped(1, columns)

    def _grouped(self, end: int, size: int) -> CSR:
        if (end, size) not in self._groups:
            order = torch.argsort(self.pairs[end], stable=True)
            pointers = row_pointers(self.pairs[end][order], size)
            self._groups[end, size] = CSR(pointers, order, order.numel())
        return self._groups[end, size]
