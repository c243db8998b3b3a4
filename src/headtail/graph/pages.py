"""What the system is told of the pages of mapped tables: how they are going to be read, and which are needed next."""

import ctypes
import mmap
import os
from contextlib import suppress

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# process_madvise of Linux, which no C library of today names; ranges that it takes in one call.
_PROCESS_MADVISE, _MOST_RANGES = 440, 1024
# Pages between two rows that are read as well: that takes less time than reading twice.
_GAP = 2


def expect_reads(table: Tensor, at_random: bool) -> None:
    """Tells the system how the pages of a mapped table are going to be read: here and there, or in order.

    Unless it knows, it reads a hundred kilobytes around every row that is fetched.
    """
    if not hasattr(mmap, "MADV_RANDOM"):
        return
    first = table.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
    size = table.data_ptr() + table.nbytes - first
    advice = mmap.MADV_RANDOM if at_random else mmap.MADV_NORMAL
    ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), advice)


def expect_rows(table: Tensor, rows: Tensor) -> None:
    """Has the system read rows [n] of a mapped table [N, …], many at a time, before they are needed.

    A row that is read when it is needed is waited for before the next one is asked for. Returns before all are read.
    """
    if rows.numel() == 0 or not hasattr(mmap, "MADV_WILLNEED"):
        return
    _advise(_page_ranges(table, rows), mmap.MADV_WILLNEED)


def _page_ranges(table: Tensor, rows: Tensor) -> NDArray[np.int64]:
    """Returns [ranges, 2], address and bytes of the pages that hold some rows of a table, in their order."""
    width = table.stride(0) * table.element_size()
    start = table.data_ptr() + torch.sort(rows.cpu().reshape(-1)).values.numpy() * width
    first, last = start // mmap.PAGESIZE, (start + width - 1) // mmap.PAGESIZE
    apart = first[1:] > last[:-1] + 1 + _GAP
    first, last = first[np.append(True, apart)], last[np.append(apart, True)]
    return np.stack([first, last - first + 1], axis=1) * mmap.PAGESIZE


def _advise(ranges: NDArray[np.int64], advice: int) -> None:
    """Gives the system the same advice for many ranges: in a few calls, or one by one where it does not allow that."""
    libc = ctypes.CDLL(None)
    whole = None
    with suppress(AttributeError, OSError):  # neither every system nor every sandbox has it
        whole = os.pidfd_open(os.getpid())
    try:
        for first in range(0, len(ranges), _MOST_RANGES):
            some = ranges[first : first + _MOST_RANGES]
            if whole is None or _advise_together(libc, whole, some, advice) < 0:
                for address, size in some.tolist():
                    libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), advice)
    finally:
        if whole is not None:
            os.close(whole)


def _advise_together(libc: ctypes.CDLL, process: int, ranges: NDArray[np.int64], advice: int) -> int:
    """Returns a number below 0 where it was refused."""
    iovec = ctypes.c_void_p(ranges.ctypes.data)
    done: int = libc.syscall(
        ctypes.c_long(_PROCESS_MADVISE), process, iovec, ctypes.c_size_t(len(ranges)), advice, ctypes.c_uint(0)
    )
    return done
