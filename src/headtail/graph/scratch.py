"""Tables in files, for what does not fit into memory: the system keeps what is used, and writes out the rest."""

import mmap
import os
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtail.errors import HeadtailError
from headtail.kernels.room import LOG, gib
from headtail.memory import available_bytes
from headtail.ranks import current

# What a table of all nodes may take of the memory that is there; several live at a time.
MEMORY_SHARE = 0.25


def fits_memory(size: int) -> bool:
    """Whether a table of so many bytes may be in memory, of which other ranks on this machine need as much."""
    return size <= MEMORY_SHARE * available_bytes() / current().beside


def scratch_table(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Returns an uninitialised [rows, columns] in a file without a name, which goes when the table is freed.

    It lies where the system has temporary files (TMPDIR).

    Raises:
        HeadtailError: the disk has no room for it.
    """
    size = rows * columns * dtype.itemsize
    if size == 0:
        return torch.empty(rows, columns, dtype=dtype)
    folder = tempfile.gettempdir()
    with tempfile.TemporaryFile(dir=folder) as file:
        return map_new(file, folder, size, dtype).view(rows, columns)


def map_new(file: BinaryIO, where: str | Path, size: int, dtype: torch.dtype, offset: int = 0) -> Tensor:
    """Returns the bytes from `offset` on, so many, of a file that is open for writing, as a tensor that writes to it.

    Raises:
        HeadtailError: the disk has no room for them.
    """
    try:
        # Room is claimed at once: a disk that fills later would end the process without a word.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, offset + size)
        else:
            os.truncate(file.fileno(), offset + size)
    except OSError as error:
        raise HeadtailError(
            f"a table of {gib(size)} does not fit on the disk at {where}: {error.strerror or error}; free some space, "
            "or name a folder on a larger disk in TMPDIR."
        ) from error
    pages = mmap.mmap(file.fileno(), offset + size)
    return torch.frombuffer(pages, dtype=dtype, offset=offset)


def read_only(array: NDArray[np.generic]) -> Tensor:
    """Returns a mapped array as a tensor; writing to it would end the process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")
        return torch.from_numpy(array)


@cache  # every evaluation would say the same
def tell_on_disk(what: str, size: int) -> None:
    """Logs, once, that a table of so many bytes goes to a file."""
    LOG.info("Memory does not do for %s: a table of %s lies in a file.", what, gib(size))
