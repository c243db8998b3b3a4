"""Pre-encoding: Â^L X (eq. 2), in memory or, blocked over columns and rows, into a file."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from headtail.errors import HeadtailError
from headtail.graph.csr import CSR
from headtail.graph.scratch import map_new, read_only, scratch_table
from headtail.graph.tables import HostTable, Table, by_columns
from headtail.kernels.room import LOG, gib
from headtail.memory import available_bytes
from headtail.progress import Advance, counting

WHAT = "pre-encoding the features"
# Two blocks of columns of all nodes may take this share of the memory that is there.
COLUMNS_SHARE = 0.4
# Rows that are copied, and entries that are summed, at a time.
BLOCK_ROWS, BLOCK_ENTRIES = 2**17, 2**22


def pre_encode(adjacency: CSR, features: Table, layers: int) -> Table:
    """Returns Â^L X, computed once per message graph; in host memory where X is, or the device is too full."""

    def smooth(x: Tensor) -> Tensor:
        for _ in range(layers):
            x = adjacency.matmul(x)
        return x

    return by_columns(features, smooth, WHAT)


def pre_encode_on_disk(adjacency: CSR, features: Table, layers: int, kept: Path | None = None) -> Table:
    """Returns Â^L X in a file: in `kept`, where it is found the next time, or in one that goes with the table."""
    if isinstance(features, HostTable):  # work on a GPU, which has blocks of its own
        return pre_encode(adjacency, features, layers)
    rows, columns = features.shape
    if kept is None:
        out = scratch_table(rows, columns, features.dtype)
        _encode_all(adjacency, features, layers, out)
        return out
    found = _open_kept(kept, rows, columns)
    if found is not None:
        return found
    LOG.info("Â^%d X (%s) is written to %s, to be found there again.", layers, gib(features.nbytes), kept)
    temporary = kept.with_name(f".{kept.name}.{os.getpid()}.tmp")
    try:
        _encode_all(adjacency, features, layers, new_encoded(temporary, rows, columns))
        temporary.replace(kept)
    except OSError as error:
        raise HeadtailError(f"cannot write {kept}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    again = _open_kept(kept, rows, columns)
    assert again is not None
    return again


def new_encoded(path: Path, rows: int, columns: int) -> Tensor:
    """Makes an npy file of float32 [rows, columns] and returns it as a tensor that writes to it.

    Other processes `join_encoded` and encode columns of their own into it.
    """
    with path.open("wb+") as file:
        npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, columns)})
        file.flush()
        offset = file.tell()
        return map_new(file, path.parent, 4 * rows * columns, torch.float32, offset).view(rows, columns)


def join_encoded(path: Path) -> Tensor:
    """Returns the file that another process made by `new_encoded` as a tensor that writes to it."""
    return torch.from_numpy(np.load(path, mmap_mode="r+", allow_pickle=False))


def encode_columns(
    adjacency: CSR,
    features: Tensor,
    layers: int,
    out: Tensor,
    first: int,
    last: int,
    at_once: int | None = None,
    advance: Advance | None = None,
) -> None:
    """Writes columns first … last − 1 of Â^L X into `out`; no other column is read or written.

    So ranks that each have a range of columns need not speak to each other.

    Args:
        adjacency: Â, on the CPU.
        features, out: [N, d], in memory or mapped.
        at_once: columns that are held in memory at a time, twice; by default what suits the memory that is there.
        advance: is told of shares of the work that are done.
    """
    if first >= last:
        return
    nodes = features.shape[0]
    room = int(COLUMNS_SHARE * available_bytes()) // max(1, 2 * nodes * features.dtype.itemsize)
    blocks = -(-(last - first) // max(1, room if at_once is None else at_once))
    cuts = adjacency.cuts(BLOCK_ENTRIES)
    share = 1.0 / max(1, blocks * layers * len(cuts))
    for columns in np.array_split(np.arange(first, last), blocks):
        chosen = slice(int(columns[0]), int(columns[-1]) + 1)
        x = torch.empty(nodes, len(columns), dtype=features.dtype)
        for start in range(0, nodes, BLOCK_ROWS):
            x[start : start + BLOCK_ROWS] = features[start : start + BLOCK_ROWS, chosen]
        for layer in range(1, layers + 1):
            y = torch.empty_like(x) if layer < layers else out[:, chosen]
            for start, stop in cuts:
                y[start:stop] = adjacency.block(start, stop).matmul(x)
                if advance is not None:
                    advance(share)
            x = y


def _encode_all(adjacency: CSR, features: Tensor, layers: int, out: Tensor) -> None:
    with counting(WHAT, 1.0) as advance:
        encode_columns(adjacency, features, layers, out, 0, features.shape[1], advance=advance)


def _open_kept(path: Path, rows: int, columns: int) -> Tensor | None:
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
