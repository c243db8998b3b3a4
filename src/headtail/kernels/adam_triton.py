"""The Triton kernel behind `adam`: one step for all weights, which may lie anywhere."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

# Elements of a weight that one program updates.
CHUNK = 1024


@triton.jit
def _adam(
    address_ptr, owner_ptr, first_ptr, size_ptr, step_ptr, rate_ptr, weights,
    log_beta, log_beta_square, new_mean, old_square, new_square, epsilon, decay, CHUNK: tl.constexpr,
):  # fmt: skip
    owner = tl.load(owner_ptr + tl.program_id(0))
    place = tl.load(first_ptr + tl.program_id(0)) + tl.arange(0, CHUNK)
    inside = place < tl.load(size_ptr + owner)
    weight_ptr = tl.load(address_ptr + owner).to(tl.pointer_type(tl.float32)) + place
    grad_ptr = tl.load(address_ptr + weights + owner).to(tl.pointer_type(tl.float32)) + place
    mean_ptr = tl.load(address_ptr + 2 * weights + owner).to(tl.pointer_type(tl.float32)) + place
    square_ptr = tl.load(address_ptr + 3 * weights + owner).to(tl.pointer_type(tl.float32)) + place
    # 1 − βᵗ is a small difference of large numbers at first.
    step = tl.load(step_ptr).to(tl.float64)
    of_mean = (1 - tl.exp(step * log_beta)).to(tl.float32)
    of_square = tl.sqrt((1 - tl.exp(step * log_beta_square)).to(tl.float32))
    weight = tl.load(weight_ptr, inside, 0.0)
    grad = tl.load(grad_ptr, inside, 0.0) + decay * weight
    mean = tl.load(mean_ptr, inside, 0.0)
    mean += new_mean * (grad - mean)
    square = old_square * tl.load(square_ptr, inside, 0.0) + new_square * grad * grad
    tl.store(mean_ptr, mean, inside)
    tl.store(square_ptr, square, inside)
    rate = tl.load(rate_ptr) / of_mean
    tl.store(weight_ptr, weight - rate * mean / (tl.sqrt(square) / of_square + epsilon), inside)


def adam(
    addresses: Tensor,
    chunks: tuple[Tensor, Tensor, Tensor],
    step: Tensor,
    rate: Tensor,
    betas: tuple[float, float],
    epsilon: float,
    decay: float,
) -> None:
    """Updates weights and their moments in place.

    Args:
        addresses: int64 [4, weights], where each weight, its gradient and both moments begin.
        chunks: of the weights, from `chunks_of`.
        step, rate: float32 [], steps with this one, and the learning rate.
        betas, epsilon, decay: as torch's Adam has them.
    """
    (_, weights), (owner, first, size) = addresses.shape, chunks
    _adam[(owner.numel(),)](
        addresses, owner, first, size, step, rate, weights,
        math.log(betas[0]), math.log(betas[1]), 1 - betas[0], betas[1], 1 - betas[1], epsilon, decay, CHUNK=CHUNK,
    )  # fmt: skip


def chunks_of(sizes: list[int], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Returns int32: the weight that each chunk is of, its first element, and the elements of every weight."""
    of = [(owner, first) for owner, size in enumerate(sizes) for first in range(0, size, CHUNK)]
    owner, first = torch.tensor(of, dtype=torch.int32, device=device).view(-1, 2).T.contiguous()
    return owner, first, torch.tensor(sizes, dtype=torch.int32, device=device)
