"""Differentiable gathers and sums over sparse rows, deterministic in both directions.

Torch's own backward of a gather adds rows with atomics (CUDA) or one by one (CPU). Here the backward of a
gather is a sum over the transposed rows, so it is fast, and the same numbers come out every time.
"""

from typing import Any

import torch
from torch import Tensor

from headtail.graph.csr import CSR, row_pointers


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, adjacency: CSR) -> Tensor:
        ctx.adjacency = adjacency.with_weight(weight)
        ctx.save_for_backward(x)
        out: Tensor = ctx.adjacency.matmul(x)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (x,) = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = ctx.adjacency.transpose().matmul(grad) if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = (grad[ctx.adjacency.row] * x[ctx.adjacency.col]).sum(dim=1)
        return grad_x, grad_weight, None


def aggregate(adjacency: CSR, x: Tensor, weight: Tensor | None = None) -> Tensor:
    """Returns Σ_j w_ij x_j as [rows, d]; `weight` [entries] replaces the adjacency's own and gets a gradient."""
    out: Tensor = _Aggregate.apply(x, adjacency.weight if weight is None else weight, adjacency)  # type: ignore[no-untyped-call]
    return out


def sum_by(index: Tensor, values: Tensor, size: int) -> Tensor:
    """Returns [size, d]: row i is the sum of values [K, d] whose index is i."""
    order = torch.argsort(index, stable=True)
    return CSR(row_pointers(index[order], size), order, index.numel()).matmul(values)


class _PairProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(u, v, left, right)
        return u.index_select(0, left).mul_(v.index_select(0, right))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        u, v, left, right = ctx.saved_tensors
        grad_u = grad_v = None
        if ctx.needs_input_grad[0]:
            grad_u = sum_by(left, v.index_select(0, right).mul_(grad), u.shape[0])
        if ctx.needs_input_grad[1]:
            grad_v = sum_by(right, u.index_select(0, left).mul_(grad), v.shape[0])
        return grad_u, grad_v, None, None


def pair_product(u: Tensor, v: Tensor, pairs: Tensor) -> Tensor:
    """Returns u[pairs[0]] ⊙ v[pairs[1]] as [P, r] (the scorer's input, eq. 8)."""
    out: Tensor = _PairProduct.apply(u, v, pairs[0], pairs[1])  # type: ignore[no-untyped-call]
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
