"""Sums of products with weights, Σ x·Wᵀ + b, not computed before it is known what follows them."""

from dataclasses import dataclass
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

# A weight, or several that are added up before anything is multiplied by them: x·W1 + x·W2 = x·(W1 + W2).
Parts = tuple[Tensor, ...]


@dataclass(frozen=True)
class Product:
    """One or two inputs [n, k] with their weights [d, k], and a bias [d], each a sum of some parts."""

    inputs: tuple[Tensor, ...]
    weights: tuple[Parts, ...]
    bias: Parts

    def __add__(self, other: "Product") -> "Product":
        return Product(self.inputs + other.inputs, self.weights + other.weights, self.bias + other.bias)

    @property
    def parts(self) -> tuple[Parts, ...]:
        """The parts of the weight of every input, then those of the bias."""
        return *self.weights, self.bias

    def value(self) -> Tensor:
        """Returns [n, d]."""
        out = F.linear(self.inputs[0], total(self.weights[0]), total(self.bias))
        for x, parts in zip(self.inputs[1:], self.weights[1:], strict=True):
            out = out + F.linear(x, total(parts))
        return out


def total(parts: Parts) -> Tensor:
    return reduce(torch.add, parts)
