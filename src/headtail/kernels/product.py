"""Sums of products with weights, Σ x·Wᵀ + b, not computed before it is known what follows them."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.launch import fused

# Columns that one program of the fused kernel can hold.
MOST_COLUMNS = 256


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


def times(x: Tensor, weight: Tensor, plus: Tensor | None, count: Tensor) -> Tensor:
    """Returns x [n, d] · weight [d, k] + plus [n, k] for the first `count` rows; what the others hold is not said."""
    if fusable(x, weight.shape[1]):
        from headtail.kernels import product_triton

        return product_triton.times(x, weight, plus, count)
    return x @ weight if plus is None else torch.addmm(plus, x, weight)


def fusable(x: Tensor, columns: int) -> bool:
    """Whether the fused kernel multiplies x: in bf16, where the tensor cores are, and into few columns."""
    return x.dtype == torch.bfloat16 and columns <= MOST_COLUMNS and fused(x)
