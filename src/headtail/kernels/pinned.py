"""Host memory that a GPU reads by itself: pages that stay where they are.

PyTorch's own pinned memory is a copy, rounded up to a power of two. That is too much for tables that fill most of a
machine, so theirs is pinned in place.
"""

import mmap
import weakref
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor


def empty_pages(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Returns an uninitialised [rows, columns] on pages of its own, which go back to the system when it is freed."""
    size = rows * columns * dtype.itemsize
    if size == 0:
        return torch.empty(rows, columns, dtype=dtype)
    return torch.frombuffer(mmap.mmap(-1, size), dtype=dtype).view(rows, columns)


def pin(tensor: Tensor) -> Tensor:
    """Pins a contiguous host tensor for as long as the object lives, and returns it.

    Without a GPU it stays as it is, and so it does where the system refuses: copies are then slower, not wrong.
    """
    if torch.cuda.is_available() and tensor.numel() and not tensor.is_pinned():
        address = tensor.data_ptr()
        if int(_runtime().cudaHostRegister(address, tensor.nbytes, 0)) == 0:
            weakref.finalize(tensor, _unpin, address).atexit = False
        else:
            _forget_error()
    return tensor


def _unpin(address: int) -> None:
    torch.cuda.synchronize()  # kernels may still be reading
    _runtime().cudaHostUnregister(address)


def _runtime() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _forget_error() -> None:
    """Takes back an error that CUDA would otherwise report of the next kernel."""
    with suppress(RuntimeError):
        torch.zeros((), device="cuda")
