"""Whether a device has room for what is to stay there, and what to say where it has not."""

import logging
from functools import cache

import torch

from headtail.kernels.blocks import free_bytes

LOG = logging.getLogger("headtail")
# What a table may take of a GPU's free memory; the rest is for the work that fills it.
TABLE_SHARE = 0.75


def has_room(device: torch.device, needed: int) -> bool:
    """Whether a table of so many bytes may stay on a device; a CPU is not asked."""
    return device.type != "cuda" or needed <= TABLE_SHARE * free_bytes(device)


def gib(size: float) -> str:
    """Returns a number of bytes as people read it."""
    return f"{size / 2**30:,.1f} GiB"


@cache  # every evaluation would say the same
def tell_spilled(what: str, size: int) -> None:
    """Logs, once, that a table of so many bytes goes to host memory."""
    LOG.warning("GPU memory does not do for %s: a table of %s goes to host memory, which is slower.", what, gib(size))
