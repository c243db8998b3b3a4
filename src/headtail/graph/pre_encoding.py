"""Pre-encoding: Â^L X (eq. 2), in memory or, blocked over columns and rows, into a file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from headtail.errors import HeadtailError
from headtail.files import leftovers
from headtail.graph.csr import CSR
from headtail.graph.scratch import map_new, read_only, scratch_table
from headtail.graph.tables import HostTable, Table, by_columns
from headtail.kernels.room import LOG, gib
from headtail.memory import available_bytes
from headtail.progress import Advance, counting
from headtail.ranks import machine, number_of

WHAT = "pre-encoding the features"
# Two blocks of columns of all nodes may take this share of the memory that is there.
COLUMNS_SHARE = 0.4
# Rows that are copied, and entries that are summed, at a time.
BLOCK_ROWS, BLOCK_ENTRIES = 2**17, 2**22


def smooth(adjacency: CSR, x: Tensor, layers: int) -> Tensor:
    """Returns Â^L x."""
    for _ in range(layers):
        x = adjacency.matmul(x)
    return x


def pre_encode(adjacency: CSR, features: Table, layers: int) -> Table:
    """Returns Â^L X, computed once per message graph; in host memory where X is, or the device is too full."""
    return by_columns(features, lambda x: smooth(adjacency, x, layers), WHAT)


def pre_encode_on_disk(adjacency: CSR, features: Table, layers: int, kept: Path | None = None) -> Table:
    """Returns Â^L X in a file: in `kept`, where it is found the next time, or in one that goes with the table."""
    if isinstance(features, HostTable):  # work on a GPU, which has blocks of its own
        return pre_encode(adjacency, features, layers)
    rows, columns = features.shape
    if kept is None:
        out = scratch_table(rows, columns, features.dtype)
        encode_columns(adjacency, features, layers, out)
        return out
    found = open_kept(kept, rows, columns)
    if found is not None:
        return found
    with keeping(kept, rows, columns) as out:
        encode_columns(adjacency, features, layers, out)
    return kept_now(kept, rows, columns)


@contextmanager
def keeping(path: Path, rows: int, columns: int) -> Iterator[Tensor]:
    """Yields a float32 [rows, columns] to be written, which is the npy file `path` once the block ends well.

    Until then it has another name, by which nobody takes it for whole. Machines that share a folder do not meet: each
    has a name of its own, and what the last one finishes is what the others had.
    """
    LOG.info("Pre-encoded features (%s) are written to %s, to be found there again.", gib(4 * rows * columns), path)
    here = path.with_name(f"{path.name}.{number_of(machine()):x}")
    temporary = here.with_name(f".{here.name}.{os.getpid()}.tmp")
    try:
        for left in leftovers(here, ".tmp"):
            left.unlink(missing_ok=True)
        with temporary.open("wb+") as file:
            npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, columns)})
            file.flush()
            yield map_new(file, path.parent, 4 * rows * columns, torch.float32, file.tell()).view(rows, columns)
            os.fsync(file.fileno())  # else a power failure could leave the name without what it names
        temporary.replace(path)
    except OSError as error:
        raise HeadtailError(f"cannot write {path}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def encode_columns(
    adjacency: CSR, features: Tensor, layers: int, out: Tensor, at_once: int | None = None, sharing: int = 1
) -> None:
    """Writes Â^L X into `out`, block by block of columns; of views of some columns, no others are read or written.

    So ranks that each have a range of columns need not speak to each other.

    Args:
        adjacency: Â, on the CPU.
        features, out: [N, d], in memory or mapped.
        at_once: columns that are held in memory at a time, twice; by default what suits the memory that is there.
        sharing: how many processes do the same on this machine, at the same time.
    """
    nodes, columns = features.shape
    if columns == 0:
        return
    room = int(COLUMNS_SHARE * available_bytes() / sharing) // max(1, 2 * nodes * features.dtype.itemsize)
    blocks = -(-columns // max(1, room if at_once is None else at_once))
    cuts = adjacency.cuts(BLOCK_ENTRIES)
    with counting(WHAT, blocks * layers * len(cuts)) as advance:
        for chosen in np.array_split(np.arange(columns), blocks):
            span = slice(int(chosen[0]), int(chosen[-1]) + 1)
            _encode_block(adjacency, features[:, span], layers, out[:, span], cuts, advance)


def _encode_block(
    adjacency: CSR, features: Tensor, layers: int, out: Tensor, cuts: list[tuple[int, int]], advance: Advance
) -> None:
    x = torch.empty(features.shape, dtype=features.dtype)
    for start in range(0, len(x), BLOCK_ROWS):
        x[start : start + BLOCK_ROWS] = features[start : start + BLOCK_ROWS]
    for layer in range(1, layers + 1):
        y = torch.empty_like(x) if layer < layers else out
        for start, stop in cuts:
            y[start:stop] = adjacency.block(start, stop).matmul(x)
            advance(1)
        x = y


def open_kept(path: Path, rows: int, columns: int) -> Tensor | None:
    """Maps what was written before, if it is whole and of this shape."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(array, np.ndarray) or array.shape != (rows, columns) or array.dtype.str != "<f4":
        return None
    return read_only(array)


def kept_now(path: Path, rows: int, columns: int) -> Tensor:
    """Maps what was just written.

    Raises:
        HeadtailError: somebody took it away.
    """
    found = open_kept(path, rows, columns)
    if found is None:
        raise HeadtailError(f"{path} was written and is not there any more; run the command again.")
    return found
