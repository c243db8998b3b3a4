"""Draws distinct entries of rows, without replacement."""

import torch
from torch import Tensor

from headtail.kernels.launch import engine, has_triton, interpreted

# Up to this many are drawn in one kernel, which keeps a row's draws in registers.
MOST_DRAWN = 64
# Up to this many, several threads draw a row.
FEW_DRAWS = 8


def distinct_offsets(degrees: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws min(count, degree) distinct offsets per row, in random order.

    Returns:
        int64 [n, count], padded with −1 at the end of rows with fewer than `count` entries.
    """
    n = degrees.numel()
    uniform = torch.rand(n, count, generator=generator, device=degrees.device, dtype=torch.float64)
    order = torch.rand(n, count, generator=generator, device=degrees.device)
    if count <= MOST_DRAWN and (interpreted() or (engine(degrees.device) and has_triton())):
        from headtail.kernels import offsets_triton

        return offsets_triton.distinct_offsets(degrees, uniform, order)
    return floyd(degrees, uniform, order)


def random_numbers(rows: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Returns what `floyd` draws from, float64 and float32 [rows, count], as lies best for the fused kernel."""
    few = count <= FEW_DRAWS
    shape, device = (rows, count) if few else (count, rows), generator.device
    uniform = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
    order = torch.rand(shape, generator=generator, device=device)
    return (uniform, order) if few else (uniform.T, order.T)


def floyd(degrees: Tensor, uniform: Tensor, order: Tensor) -> Tensor:
    """The reference: offsets from random numbers [n, count], in the order of others.

    Floyd's algorithm, one step per drawn entry and vectorised over rows: the i-th step draws from 0 … top and takes
    `top` itself where the draw is taken already.
    """
    n, count = uniform.shape
    chosen = torch.full((n, count), -1, dtype=torch.int64, device=degrees.device)
    for i in range(count):
        top = degrees - count + i
        drawn = (uniform[:, i] * (top + 1)).long()
        taken = (chosen[:, :i] == drawn[:, None]).any(dim=1)
        chosen[:, i] = torch.where(degrees <= count, i, torch.where(taken, top, drawn))
    valid = chosen < degrees[:, None]
    place = order.masked_fill(~valid, 2.0).argsort(dim=1)
    return chosen.masked_fill(~valid, -1).gather(1, place)
