"""Sparse rows: the one adjacency structure that samplers, encoders and heuristics share."""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.gather import segment_sum


@dataclass(frozen=True)
class CSR:
    """Neighbours of every row, sorted by column.

    Attributes:
        row_ptr: int64 [rows + 1], row i owns the entries row_ptr[i] … row_ptr[i + 1] − 1.
        col: int64 [entries].
        num_cols: number of columns.
        weight: float32 [entries], None where every entry weighs 1.
        longest: no row has more entries; None where that is not known.
    """

    row_ptr: Tensor
    col: Tensor
    num_cols: int
    weight: Tensor | None = None
    longest: int | None = None

    @staticmethod
    def from_links(links: Tensor, num_rows: int, num_cols: int | None = None) -> "CSR":
        """Builds rows from links [2, E]; duplicates become one entry."""
        num_cols = num_rows if num_cols is None else num_cols
        keys = torch.unique(links[0] * num_cols + links[1])
        row = torch.div(keys, num_cols, rounding_mode="floor")
        return CSR(row_pointers(row, num_rows), keys - row * num_cols, num_cols)

    @property
    def num_rows(self) -> int:
        return self.row_ptr.numel() - 1

    @property
    def device(self) -> torch.device:
        return self.col.device

    @cached_property
    def degrees(self) -> Tensor:
        """int64 [rows], entries per row."""
        return self.row_ptr.diff()

    @cached_property
    def row(self) -> Tensor:
        """int64 [entries], the row of every entry."""
        return torch.repeat_interleave(self.degrees, output_size=self.col.numel())

    @cached_property
    def _keys(self) -> Tensor:
        return self.row * self.num_cols + self.col

    def contains(self, rows: Tensor, cols: Tensor) -> Tensor:
        """bool [P], whether each pair (rows[p], cols[p]) is an entry."""
        return self.find(rows, cols)[1]

    def find(self, rows: Tensor, cols: Tensor) -> tuple[Tensor, Tensor]:
        """Returns entry int64 [P] and found bool [P]: the place of each pair in `col`, right where it was found."""
        if self.col.numel() == 0:
            return torch.zeros_like(rows), torch.zeros_like(rows, dtype=torch.bool)
        wanted = rows * self.num_cols + cols
        entry = torch.searchsorted(self._keys, wanted).clamp_(max=self._keys.numel() - 1)
        return entry, self._keys[entry] == wanted

    def entries_of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Lists the entries of the given rows, row after row.

        Returns:
            owner: int64 [K], position in `rows` that each listed entry belongs to.
            entry: int64 [K], its place in `col`.
        """
        owner, offset = all_entries(self.degrees[rows])
        return owner, self.row_ptr[rows][owner] + offset

    def diagonal(self) -> Tensor:
        """Returns int64 [rows], the place in `col` of every row's entry with itself, which all rows must have."""
        return (self.row == self.col).nonzero().squeeze(1)

    def transpose(self) -> "CSR":
        """Returns the same entries with rows and columns exchanged."""
        order = torch.argsort(self.col, stable=True)
        weight = None if self.weight is None else self.weight[order]
        return CSR(row_pointers(self.col[order], self.num_cols), self.row[order], self.num_rows, weight)

    @cached_property
    def transposed(self) -> "CSR":
        """`transpose`, found once."""
        return self.transpose()

    def with_weight(self, weight: Tensor | None) -> "CSR":
        """Returns the same pattern with other weights."""
        return CSR(self.row_ptr, self.col, self.num_cols, weight)

    def block(self, first: int, last: int) -> "CSR":
        """Returns rows first … last − 1 (views, no copies of entries)."""
        start, stop = int(self.row_ptr[first]), int(self.row_ptr[last])
        weight = None if self.weight is None else self.weight[start:stop]
        return CSR(self.row_ptr[first : last + 1] - start, self.col[start:stop], self.num_cols, weight)

    def cuts(self, entries: int) -> list[tuple[int, int]]:
        """Returns (first, last) of blocks of rows with at most so many entries, but one row at least."""
        cuts, first = [], 0
        while first < self.num_rows:
            last = int(torch.searchsorted(self.row_ptr, int(self.row_ptr[first]) + entries, right=True)) - 1
            last = min(max(last, first + 1), self.num_rows)
            cuts.append((first, last))
            first = last
        return cuts

    def matmul(self, x: Tensor) -> Tensor:
        """Returns the product with x [cols, d] as [rows, d], summed in entry order (deterministic)."""
        return segment_sum(self.row_ptr, self.col, self.weight, x, self.longest)

    def to(self, device: torch.device | str) -> "CSR":
        weight = None if self.weight is None else self.weight.to(device)
        return CSR(self.row_ptr.to(device), self.col.to(device), self.num_cols, weight)


def all_entries(degrees: Tensor) -> tuple[Tensor, Tensor]:
    """Returns owner [K] and offset [K] of every entry of rows with the given degrees."""
    owner = torch.repeat_interleave(degrees)
    first = degrees.cumsum(0) - degrees
    return owner, torch.arange(owner.numel(), device=degrees.device) - first[owner]


def row_pointers(sorted_rows: Tensor, num_rows: int) -> Tensor:
    """Returns int64 [num_rows + 1], the start of every row in a sorted list of row numbers."""
    counts = torch.bincount(sorted_rows, minlength=num_rows)
    return F.pad(counts.cumsum(0), (1, 0))
