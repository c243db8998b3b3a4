"""Groups numbers by key, in their own order."""

import torch
from torch import Tensor


def grouped(keys: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Returns row pointers [size + 1] and an order [n] that groups int32 keys 0 … size − 1; larger ones come last."""
    ordered, order = torch.sort(keys, stable=True)
    return torch.searchsorted(ordered, torch.arange(size + 1, dtype=torch.int32, device=keys.device)), order
