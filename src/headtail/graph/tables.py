"""Tables with a row per node, on the device or, where they are too large for it, in host memory."""

from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.pages import expect_rows
from headtail.graph.scratch import fits_memory, scratch_table, tell_on_disk
from headtail.kernels.blocks import free_bytes, in_blocks
from headtail.kernels.gather import take_rows
from headtail.kernels.host import host_rows
from headtail.kernels.pinned import empty_pages, pin
from headtail.kernels.room import has_room, tell_spilled

# A block of columns, what it is multiplied into, and a copy on the way may take this share of a GPU's free memory; on
# a CPU, blocks have so many columns.
COLUMN_SHARE, COLUMN_COPIES, COLUMNS_ON_CPU = 0.5, 3, 64
# Rows of a file that are asked for together, while those before them are copied.
ROWS_EXPECTED = 2**15


class HostTable:
    """A table [N, d] in host memory, pinned where there is a GPU, or in a file, for work on another device.

    Args:
        values: [N, d] on the CPU; used as they are, without a copy, if they are contiguous.
        device: where rows are wanted, which is what `device` means of a tensor too. May be the CPU itself.
        on_disk: the values are those of a mapped file, which is not to be held in memory.
    """

    def __init__(self, values: Tensor, device: torch.device, on_disk: bool = False) -> None:
        assert values.device.type == "cpu"
        pinned = device.type == "cuda" and not on_disk
        self.values = pin(values.contiguous()) if pinned else values.contiguous()
        self.device, self.on_disk = device, on_disk

    @staticmethod
    def empty(rows: int, columns: int, dtype: torch.dtype, device: torch.device, on_disk: bool = False) -> "HostTable":
        """Returns a table to be written."""
        pages = scratch_table if on_disk else empty_pages
        return HostTable(pages(rows, columns, dtype), device, on_disk)

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    def rows(self, index: Tensor) -> Tensor:
        """Returns rows [n, d] of the given numbers [n] on the device."""
        if not self.on_disk:
            return host_rows(self.values, index, self.device)
        out = torch.empty(index.numel(), self.shape[1], dtype=self.dtype, device=self.device)
        parts = torch.split(index.cpu(), ROWS_EXPECTED)
        expect_rows(self.values, parts[0])
        for number, part in enumerate(parts):
            for coming in parts[number + 1 : number + 2]:
                expect_rows(self.values, coming)
            first = number * ROWS_EXPECTED
            out[first : first + part.numel()] = host_rows(self.values, part, self.device)
        return out

    def block(self, first: int, last: int) -> Tensor:
        """Returns rows first … last − 1 on the device, without waiting for them."""
        return self.values[first:last].to(self.device, non_blocking=True)

    def columns(self, first: int, last: int) -> Tensor:
        """Returns columns first … last − 1 as a contiguous [N, last − first] on the device."""
        return self.values[:, first:last].contiguous().to(self.device)

    # Writing waits, so that the host may read what was written at once.

    def write(self, first: int, rows: Tensor) -> None:
        """Puts rows [n, d] in place, from row `first` on."""
        self.values[first : first + rows.shape[0]].copy_(rows)

    def write_columns(self, first: int, columns: Tensor) -> None:
        """Puts columns [N, n] in place, from column `first` on."""
        self.values[:, first : first + columns.shape[1]] = columns.to(self.values.device)


Table = Tensor | HostTable


def new_table(rows: int, columns: int, like: Table, what: str) -> Table:
    """Returns an uninitialised [rows, columns]: on the device of `like` if that has room, else in host memory.

    Where that has no room either, it lies in a file.

    Args:
        like: has the type of the elements as well.
        what: names the work that the table is for.
    """
    needed = rows * columns * like.dtype.itemsize
    if like.device.type == "cpu" and not fits_memory(needed):
        tell_on_disk(what, needed)
        return HostTable.empty(rows, columns, like.dtype, like.device, on_disk=True)
    if has_room(like.device, needed):
        with suppress(torch.OutOfMemoryError):
            return torch.empty(rows, columns, dtype=like.dtype, device=like.device)
    tell_spilled(what, needed)
    return HostTable.empty(rows, columns, like.dtype, like.device, on_disk=not fits_memory(needed))


def beside(table: Table, what: str) -> Table:
    """Returns an uninitialised table of the same shape, in host memory at least where the other one is."""
    rows, columns = table.shape
    if isinstance(table, HostTable):
        return HostTable.empty(rows, columns, table.dtype, table.device, table.on_disk)
    return new_table(rows, columns, table, what)


def mapped_table(values: Tensor, device: torch.device) -> Table:
    """Returns values [N, d] that are mapped from a file as a table of a device: in its own memory, if that has room."""
    if device.type == "cpu":
        return values
    if has_room(device, values.nbytes):
        with suppress(torch.OutOfMemoryError):
            return values.to(device)
    return HostTable(values, device, on_disk=True)


def values_of(table: Table) -> Tensor:
    """Returns a table as one tensor, wherever it lies."""
    return table if isinstance(table, Tensor) else table.values


def rows_of(table: Table, nodes: Tensor | slice) -> Tensor:
    """Returns the rows of nodes (numbers [n], or a slice without a step) on the table's device."""
    if isinstance(table, Tensor):
        return table[nodes] if isinstance(nodes, slice) else take_rows(table, nodes)
    if isinstance(nodes, slice):
        first, last, _ = nodes.indices(table.shape[0])
        return table.block(first, last)
    return table.rows(nodes)


def write_rows(table: Table, first: int, rows: Tensor) -> None:
    """Puts rows [n, d] in place, from row `first` on."""
    if isinstance(table, Tensor):
        table[first : first + rows.shape[0]] = rows
    else:
        table.write(first, rows)


def fill(
    table: Table, rows: Callable[[slice], Tensor], size: int, what: str, first: int = 0, last: int | None = None
) -> None:
    """Writes rows(slice) to every slice of a table, so many rows at a time; fewer where GPU memory does not last.

    `rows` may read the slice of the table that it is to replace. Only rows first … last − 1 are written.
    """
    end = table.shape[0] if last is None else last

    def write(first: int, size: int) -> int:
        stop = min(first + size, end)
        write_rows(table, first, rows(slice(first, stop)))
        return stop

    in_blocks(write, end, size, what, first)


def by_columns(table: Table, work: Callable[[Tensor], Tensor], what: str) -> Table:
    """Returns work(table), of the same shape, every column of which depends on that column of the table alone.

    Where the table is in host memory, or the GPU too full, it is done in blocks of columns that go to host memory.
    """
    if isinstance(table, Tensor):
        with suppress(torch.OutOfMemoryError):
            return work(table)
        tell_spilled(what, table.nbytes)
    rows, columns = table.shape
    on_disk = isinstance(table, HostTable) and table.on_disk
    out = HostTable.empty(rows, columns, table.dtype, table.device, on_disk)
    columns_into(out, table, work, what, 0, columns)
    return out


def columns_into(
    out: HostTable, table: Table, work: Callable[[Tensor], Tensor], what: str, first: int, last: int
) -> None:
    """Writes columns first … last − 1 of work(table) into `out`, in blocks; no other column is read or written."""

    def some(start: int, size: int) -> int:
        stop = min(start + size, last)
        block = table[:, start:stop].contiguous() if isinstance(table, Tensor) else table.columns(start, stop)
        out.write_columns(start, work(block))
        return stop

    in_blocks(some, last, _columns_at_once(table), what, first)


def _columns_at_once(table: Table) -> int:
    if table.device.type != "cuda":
        return COLUMNS_ON_CPU
    each = COLUMN_COPIES * table.shape[0] * table.dtype.itemsize
    return max(1, min(table.shape[1], int(COLUMN_SHARE * free_bytes(table.device)) // max(1, each)))


def mean_row(table: Table) -> Tensor:
    """Returns [d], the mean of all rows, on the table's device."""
    return values_of(table).mean(dim=0).to(table.device)


def sources_of(table: Table, adjacency: CSR) -> tuple[Tensor, CSR]:
    """Returns what a convolution along an adjacency [T × N] reads of a table [N, d]: the sources, and whose they are.

    Of a table in host memory these are the rows that some entry names, and the adjacency has columns for them alone.
    """
    if isinstance(table, Tensor):
        return table, adjacency
    nodes, col = torch.unique(adjacency.col, return_inverse=True)
    return table.rows(nodes), CSR(adjacency.row_ptr, col, nodes.numel(), adjacency.weight)
