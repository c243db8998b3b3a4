"""Sums of products with weights, Σ x·Wᵀ + b, not computed before it is known what follows them."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Product:
    """One or two inputs [n, k] with their weights [d, k], and a bias [d]."""

    inputs: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    bias: Tensor

    def __add__(self, other: "Product") -> "Product":
        return Product(self.inputs + other.inputs, self.weights + other.weights, self.bias + other.bias)

    def value(self) -> Tensor:
        """Returns [n, d]."""
        out = F.linear(self.inputs[0], self.weights[0], self.bias)
        for x, weight in zip(self.inputs[1:], self.weights[1:], strict=True):
            out = out + F.linear(x, weight)
        return out
