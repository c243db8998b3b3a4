"""How much work a device takes at once: blocks sized by free memory, and halved where it does not last."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import torch

from headtail.errors import ConfigError

T = TypeVar("T")

# What a block may take of a GPU: this many bytes, and this share of what is free. The first bound nearly always
# decides, so blocks, and with them the last bits of sums, do not depend on what else the GPU is doing.
MOST_BYTES, MOST_SHARE = 5 * 2**28, 0.25


def free_bytes(device: torch.device) -> int:
    """Returns what can still be allocated on a GPU: memory nobody has, and what this process keeps unused."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def block_size(device: torch.device, bytes_each: int, on_cpu: int) -> int:
    """Returns how many items of so many bytes make a block: a power of two on a GPU, `on_cpu` on a CPU."""
    if device.type != "cuda":
        return on_cpu
    items = min(MOST_BYTES, int(MOST_SHARE * free_bytes(device))) // bytes_each
    return int(2 ** (max(1, items).bit_length() - 1))


def shrinking(work: Callable[[int], T], size: int, what: str) -> tuple[T, int]:
    """Returns work(size) and `size`, which is halved for as long as GPU memory does not last.

    Args:
        work: called again with a smaller size after it ran out of memory, so it must leave nothing half done.
        size: 1 or more.
        what: names the work in the error message.

    Raises:
        ConfigError: not even size 1 fits.
    """
    while size > 1:
        try:
            return work(size), size
        except torch.OutOfMemoryError:
            size //= 2
        # Only here, where the exception no longer holds the tensors of what failed, is there something to hand back.
        torch.cuda.empty_cache()
    with fitting(what):
        return work(1), 1


def in_blocks(work: Callable[[int, int], int], total: int, size: int, what: str, first: int = 0) -> None:
    """Does the rows first … total − 1 in blocks, smaller ones where GPU memory does not last.

    Args:
        work: work(first, size) does the rows from `first` on that make up `size`, at least one, and returns the first
            that it left. It may be called again for the same rows.
        total, size, what: where the rows end, and as in `shrinking`.
        first: where they begin.
    """
    while first < total:
        first, size = shrinking(partial(work, first), size, what)


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Says in the user's words that what is done inside does not fit into GPU memory.

    Raises:
        ConfigError: it does not.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        short = str(error).split(". ")[0]
        raise ConfigError(
            f"the GPU has too little memory for {what} ({short}); end what else uses it, set a smaller `hidden`, or "
            "use --device cpu."
        ) from error
