"""The learning rate and the seed of every epoch."""

import math

import torch


def cosine(peak: float, epoch: int, epochs: int) -> float:
    """Learning rate of an epoch (1-based): from `peak` along half a cosine towards 0."""
    return peak * 0.5 * (1 + math.cos(math.pi * (epoch - 1) / epochs))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):  # on the device, where recorded steps read it
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def epoch_seed(seed: int, epoch: int, rank: int = 0) -> int:
    """A seed for one epoch of one run on one rank; different for all within reason."""
    return (seed * 1_000_003 + epoch + rank * 0x9E3779B97F4A7C15) % 2**63
