"""Tables that several ranks found parts of: every rank gives its rows or columns to all, block by block."""

from itertools import pairwise

import torch
from torch import Tensor

from headtail.graph.tables import Table, rows_of, write_rows
from headtail.ranks import Ranks

# What an exchange holds beside the tables: the blocks of all ranks together take about so many bytes. All ranks must
# cut alike, so it does not depend on the memory that one of them has.
BLOCK_BYTES = 2**23


def exchange_rows(ranks: Ranks, table: Table, bounds: list[int]) -> None:
    """Makes a table [N, d] whole on all ranks, of which rank r has written the rows bounds[r] … bounds[r + 1] − 1."""
    if not ranks.several:
        return
    most = max(last - first for first, last in pairwise(bounds))
    at_once, own_end = _rows_at_once(ranks, table.shape[1], table.dtype), bounds[ranks.rank + 1]
    for done in range(0, most, at_once):
        size = min(at_once, most - done)
        first = min(bounds[ranks.rank] + done, own_end)
        part = _padded(rows_of(table, slice(first, min(first + size, own_end))), size, table.shape[1])
        for rank, found in enumerate(ranks.each(part)):
            first, last = bounds[rank] + done, min(bounds[rank] + done + size, bounds[rank + 1])
            if rank != ranks.rank and first < last:
                write_rows(table, first, found[: last - first])


def exchange_columns(ranks: Ranks, part: Table, bounds: list[int], out: Table | None) -> None:
    """Joins what each rank r has of a table, its columns bounds[r] … bounds[r + 1] − 1 as `part` [N, n], in `out`.

    A rank without `out` gives its part all the same. A part may be a view of columns of `out`.
    """
    widths = [last - first for first, last in pairwise(bounds)]
    at_once = _rows_at_once(ranks, max(widths), part.dtype)
    for first in range(0, part.shape[0], at_once):
        rows = rows_of(part, slice(first, first + at_once))
        found = ranks.each(_padded(rows, rows.shape[0], max(widths)))
        if out is not None:
            whole = torch.cat([each[:, :width] for each, width in zip(found, widths, strict=True)], dim=1)
            write_rows(out, first, whole)


def told_by_first(ranks: Ranks, table: Tensor) -> None:
    """Replaces a tensor [N, d] by that of rank 0, in place; what others have in it does not matter."""
    for rows in torch.split(table, _rows_at_once(ranks, table.shape[1], table.dtype)) if ranks.several else ():
        rows.copy_(ranks.of_first(rows))


def _rows_at_once(ranks: Ranks, columns: int, dtype: torch.dtype) -> int:
    return max(1, BLOCK_BYTES // max(1, ranks.size * columns * dtype.itemsize))


def _padded(rows: Tensor, height: int, width: int) -> Tensor:
    """Returns rows [n, d] as [height, width], zeros below and on the right: ranks exchange what has one shape."""
    if rows.shape == (height, width):
        return rows
    padded = rows.new_zeros(height, width)
    padded[: rows.shape[0], : rows.shape[1]] = rows
    return padded
