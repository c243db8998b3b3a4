"""npy arrays that are written piece by piece, and rows that are cut from streams of sorted keys."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from headtail.graph.packed.engine import BLOCK_ROWS, Ints


class GrowingArray:
    """An npy file of int64 [n] whose length is known at the end."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb+")
        self.length = 0
        self._write_header()
        self._start = self._file.tell()

    def append(self, block: Ints) -> None:
        """Writes a block behind the others."""
        self._file.write(np.ascontiguousarray(block, dtype="<i8").data)
        self.length += len(block)

    def __enter__(self) -> "GrowingArray":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.seek(0)
            self._write_header()
            assert self._file.tell() == self._start, "numpy leaves room for longer shapes"
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()

    def _write_header(self) -> None:
        npy.write_array_header_1_0(self._file, {"descr": "<i8", "fortran_order": False, "shape": (self.length,)})


@contextmanager
def new_array(path: Path, dtype: str, shape: tuple[int, ...]) -> Iterator[NDArray[np.generic]]:
    """Yields a mapped array to be filled, which is on disk when the block ends."""
    if 0 in shape:
        np.save(path, np.empty(shape, dtype=dtype), allow_pickle=False)
        yield np.empty(shape, dtype=dtype)
        return
    array = npy.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    yield array
    array.flush()
    del array
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def mapped(path: Path) -> NDArray[np.int64]:
    """Returns an array of node numbers, keys or times that was written here before."""
    try:
        array: NDArray[np.int64] = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:  # nothing can be mapped of an array without entries
        array = np.load(path, allow_pickle=False)
    return array


def blocks_of(length: int, size: int = BLOCK_ROWS) -> Iterator[slice]:
    """Yields slices that cover 0 … length − 1."""
    for first in range(0, length, size):
        yield slice(first, min(first + size, length))


def distinct(keys: Iterable[Ints]) -> Iterator[Ints]:
    """Yields sorted keys without those that repeat the one before."""
    last = -1
    for block in keys:
        if len(block):
            new = np.diff(block, prepend=last) != 0
            last = int(block[-1])
            yield block[new]


def merged(keys: Iterable[Ints], others: Ints) -> Iterator[Ints]:
    """Yields two sorted lists of distinct keys as one; `others` may be mapped."""
    done = 0
    for block in keys:
        if len(block):
            upto = int(np.searchsorted(others, block[-1], side="right"))
            yield np.union1d(block, others[done:upto])
            done = upto
    yield np.asarray(others[done:])


def write_rows(folder: Path, name: str, keys: Iterable[Ints], num_nodes: int) -> int:
    """Writes sorted distinct keys row · N + column as `name`_row_ptr and `name`_col; returns how many there are."""
    pointers = np.zeros(num_nodes + 1, dtype=np.int64)
    with GrowingArray(folder / f"{name}_col.npy") as col:
        for block in keys:
            rows, columns = np.divmod(block, num_nodes)
            col.append(columns)
            count_rows(pointers, rows)
        entries = col.length
    write_pointers(folder, name, pointers)
    return entries


def count_rows(pointers: Ints, rows: Ints) -> None:
    """Adds sorted rows to counts [N + 1], that of row i at i + 1."""
    if len(rows):
        first, last = int(rows[0]), int(rows[-1])
        pointers[first + 1 : last + 2] += np.bincount(rows - first, minlength=last - first + 1)


def write_pointers(folder: Path, name: str, counts: Ints) -> None:
    """Writes counts as row pointers."""
    with new_array(folder / f"{name}_row_ptr.npy", "<i8", counts.shape) as row_ptr:
        np.cumsum(counts, out=row_ptr)


def read_keys(folder: Path, name: str, num_nodes: int) -> Iterator[Ints]:
    """Yields the entries of rows as sorted keys."""
    row_ptr, col = mapped(folder / f"{name}_row_ptr.npy"), mapped(folder / f"{name}_col.npy")
    for part in blocks_of(len(col)):
        yield rows_of_entries(row_ptr, part) * num_nodes + col[part]


def rows_of_entries(row_ptr: Ints, part: slice) -> Ints:
    """Returns the row of each of the entries of a slice."""
    first = int(np.searchsorted(row_ptr, part.start, side="right")) - 1
    last = int(np.searchsorted(row_ptr, part.stop, side="left"))
    ends = np.clip(row_ptr[first : last + 1], part.start, part.stop)
    return np.repeat(np.arange(first, last), np.diff(ends))
