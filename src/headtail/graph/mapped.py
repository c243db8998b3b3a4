"""Sparse rows that lie in files: what is derived from them is found block by block, never for all entries at once."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.view import GraphView

# Pairs that are looked up, and entries that are read for them or whose sums are taken, at a time.
BLOCK_PAIRS, BLOCK_ENTRIES = 2**18, 2**23


@dataclass(frozen=True)
class MappedCSR(CSR):
    """Rows whose columns are mapped from a file.

    Attributes:
        owners: int64 [entries], the row of every entry where a file holds it, else None.
        averages: entries weigh 1 / degree of their row, as in row normalisation; told block by block.
    """

    owners: Tensor | None = None
    averages: bool = False

    @cached_property
    def row(self) -> Tensor:
        """int64 [entries], the row of every entry; in memory unless a file holds it."""
        return self.owners if self.owners is not None else torch.repeat_interleave(self.degrees)

    @property
    def averaged(self) -> "MappedCSR":
        """The same rows, each entry weighing 1 / degree."""
        return MappedCSR(self.row_ptr, self.col, self.num_cols, owners=self.owners, averages=True)

    def find(self, rows: Tensor, cols: Tensor) -> tuple[Tensor, Tensor]:
        """Like CSR.find, without a key for every entry of the graph."""
        if self.col.numel() == 0 or rows.numel() == 0:
            return torch.zeros_like(rows), torch.zeros_like(rows, dtype=torch.bool)
        parts = zip(torch.split(rows, BLOCK_PAIRS), torch.split(cols, BLOCK_PAIRS), strict=True)
        entries, found = zip(*(self._search(row, col) for row, col in parts), strict=True)
        return torch.cat(entries), torch.cat(found)

    def _search(self, rows: Tensor, cols: Tensor) -> tuple[Tensor, Tensor]:
        """Reads the rows that are asked about, which is the fastest, unless they hold too many entries."""
        distinct, place = torch.unique(rows, return_inverse=True)
        if not 0 < int(self.degrees[distinct].sum()) <= BLOCK_ENTRIES:
            return self._bisect(rows, cols)
        owner, entry = self.entries_of(distinct)
        keys, wanted = owner * self.num_cols + self.col[entry], place * self.num_cols + cols
        at = torch.searchsorted(keys, wanted).clamp_(max=keys.numel() - 1)
        return entry[at], keys[at] == wanted

    def _bisect(self, rows: Tensor, cols: Tensor) -> tuple[Tensor, Tensor]:
        """Looks at a few entries of each row, however long it is."""
        low, end = self.row_ptr[rows], self.row_ptr[rows + 1]
        high, last = end.clone(), self.col.numel() - 1
        for _ in range(int((end - low).max()).bit_length()):
            middle = (low + high) // 2
            right = (middle < high) & (self.col[middle.clamp(max=last)] < cols)
            low, high = torch.where(right, middle + 1, low), torch.where(right, high, middle)
        entry = low.clamp(max=last)
        return entry, (low < end) & (self.col[entry] == cols)

    def diagonal(self) -> Tensor:
        nodes = torch.arange(self.num_rows)
        return self.find(nodes, nodes)[0]

    def block(self, first: int, last: int) -> CSR:
        rows = super().block(first, last)
        if not self.averages:
            return rows
        return rows.with_weight(rows.degrees.to(torch.float32).reciprocal().repeat_interleave(rows.degrees))

    def matmul(self, x: Tensor) -> Tensor:
        out = x.new_empty(self.num_rows, x.shape[1])
        for first, last in self.cuts(BLOCK_ENTRIES):
            out[first:last] = self.block(first, last).matmul(x)
        return out

    def to(self, device: torch.device | str) -> CSR:
        if torch.device(device).type == "cpu":
            return self
        weight = None if self.weight is None else self.weight.to(device)
        resident = CSR(self.row_ptr.to(device), self.col.to(device, torch.long), self.num_cols, weight)
        if not self.averages:
            return resident
        return resident.with_weight(resident.degrees.to(torch.float32).reciprocal()[resident.row])


@dataclass(frozen=True, kw_only=True)
class MappedView(GraphView):
    """The training links of a packed graph, with their rows and their message graph A + I read from files."""

    train_rows: MappedCSR
    message_rows: MappedCSR

    @property
    def out_rows(self) -> CSR:
        return self.train_rows

    def to(self, device: torch.device | str) -> GraphView:
        return self if torch.device(device).type == "cpu" else super().to(device)
