"""Mixed precision: matrix products in bf16 or tf32 while weights, statistics and losses stay in fp32."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headtail.errors import ConfigError
from headtail.kernels.launch import engine


def resolve_precision(setting: str, device: torch.device) -> str:
    """Returns bf16, tf32 or fp32; "auto" is bf16 on a GPU that can, else fp32.

    Raises:
        ConfigError: the device cannot do what is asked for.
    """
    if setting == "auto":
        return "bf16" if engine(device) and torch.cuda.is_bf16_supported() else "fp32"
    if setting != "fp32" and device.type == "cpu":
        raise ConfigError(f"precision {setting!r} needs a GPU; on a CPU training is in fp32.")
    return setting


@contextmanager
def mixed(precision: str, device: torch.device) -> Iterator[None]:
    """Has matrix products inside computed in that precision."""
    if precision == "tf32":
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
    elif precision == "bf16":
        # Recorded steps cast the weights every time, so there is nothing to remember.
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            yield
    else:
        yield
