"""Differentiable gathers and sums over sparse rows, deterministic in both directions.

Torch's own backward of a gather adds rows with atomics (CUDA) or one by one (CPU). Here the backward of a
gather is a sum over the transposed rows, so it is fast, and the same numbers come out every time.
"""

from typing import Any

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.kernels import gather
from headtail.sampling.places import PairPlaces


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, adjacency: CSR) -> Tensor:
        ctx.adjacency = adjacency if weight is adjacency.weight else adjacency.with_weight(weight)
        ctx.save_for_backward(x)
        out: Tensor = ctx.adjacency.matmul(x)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (x,) = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = ctx.adjacency.transposed.matmul(grad) if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = (grad[ctx.adjacency.row] * x[ctx.adjacency.col]).sum(dim=1)
        return grad_x, grad_weight, None


def aggregate(adjacency: CSR, x: Tensor, weight: Tensor | None = None) -> Tensor:
    """Returns Σ_j w_ij x_j as [rows, d]; `weight` [entries] replaces the adjacency's own and gets a gradient."""
    out: Tensor = _Aggregate.apply(x, adjacency.weight if weight is None else weight, adjacency)  # type: ignore[no-untyped-call]
    return out


class _PairProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, pairs: PairPlaces) -> Tensor:
        ctx.save_for_backward(u, v)
        ctx.pairs = pairs
        return gather.pair_product(u, v, pairs.left, pairs.right)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (u, v), pairs, grad = ctx.saved_tensors, ctx.pairs, grad.contiguous()
        grad_u = grad_v = None
        if ctx.needs_input_grad[0]:
            by_left = pairs.by_left(u.shape[0])
            grad_u = gather.segment_sum_of_products(by_left.row_ptr, by_left.col, pairs.right, grad, v)
        if ctx.needs_input_grad[1]:
            by_right = pairs.by_right(v.shape[0])
            grad_v = gather.segment_sum_of_products(by_right.row_ptr, by_right.col, pairs.left, grad, u)
        return grad_u, grad_v, None


def pair_product(u: Tensor, v: Tensor, pairs: PairPlaces) -> Tensor:
    """Returns u[pairs.left] ⊙ v[pairs.right] as [P, r] (the scorer's input, eq. 8)."""
    out: Tensor = _PairProduct.apply(u, v, pairs)  # type: ignore[no-untyped-call]
    return out


def row_softmax(adjacency: CSR, logits: Tensor) -> Tensor:
    """Returns the softmax of logits [entries] within every row."""
    row, rows = adjacency.row, adjacency.num_rows
    top = torch.full((rows,), -torch.inf, dtype=logits.dtype, device=logits.device)
    top = top.scatter_reduce(0, row, logits.detach(), reduce="amax")
    exponent = (logits - top[row]).exp()
    ones = CSR(adjacency.row_ptr, torch.arange(row.numel(), device=row.device), row.numel())
    total = aggregate(ones, exponent[:, None]).squeeze(1)
    return exponent / total[row]
