"""Differentiable gathers and sums over sparse rows, deterministic in both directions.

Torch's own backward of a gather adds rows with atomics (CUDA) or one by one (CPU). Here the backward of a
gather is a sum over the transposed rows, so it is fast, and the same numbers come out every time.
"""

from typing import Any

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.kernels import attend as kernel
from headtail.kernels import gather
from headtail.sampling.places import PairPlaces


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: CSR) -> Tensor:
        ctx.adjacency = adjacency
        return adjacency.matmul(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:
        return (ctx.adjacency.transposed.matmul(grad.contiguous()) if ctx.needs_input_grad[0] else None), None


def aggregate(adjacency: CSR, x: Tensor) -> Tensor:
    """Returns Σ_j w_ij x_j as [rows, d], with the weights of the adjacency, which get no gradient."""
    out: Tensor = _Aggregate.apply(x, adjacency)  # type: ignore[no-untyped-call]
    return out


class _WithFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.shape = x.shape
        return x.view_as(x), x[:count]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_first: Tensor | None) -> tuple[Tensor | None, None]:
        if grad_first is None:
            return grad, None
        grad = grad_first.new_zeros(ctx.shape) if grad is None else grad.contiguous()
        grad[: grad_first.shape[0]].add_(grad_first)  # += would write the sum once more
        return grad, None


def with_first(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns x and its first rows, both to be used.

    The gradient of the rows is added to that of x in place: torch's own slicing would pad it with zeros to the size
    of x first. So the gradient of x must come from one use of it, of one of the functions here.
    """
    if not x.requires_grad:
        return x, x[:count]
    both: tuple[Tensor, Tensor] = _WithFirst.apply(x, count)  # type: ignore[no-untyped-call]
    return both


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


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, direction: Tensor, from_target: Tensor, adjacency: CSR) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):  # statistics stay in fp32
            out, softmax = kernel.attend(adjacency.row_ptr, adjacency.col, x, direction, from_target)
        ctx.save_for_backward(x, direction, from_target, softmax)
        ctx.adjacency = adjacency
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        (x, direction, from_target, softmax), rows, grad = ctx.saved_tensors, ctx.adjacency, grad.contiguous()
        found = kernel.target_gradients(rows.row_ptr, rows.col, x, direction, from_target, softmax, grad)
        grad_x = None
        if ctx.needs_input_grad[0]:  # features have no gradient, so the innermost rows need not be transposed
            by_source = rows.transposed
            grad_x = kernel.source_gradient(by_source.row_ptr, by_source.col, x, direction, found.facts, grad)
        return grad_x, found.direction, found.from_target, None


def attend(adjacency: CSR, x: Tensor, direction: Tensor, from_target: Tensor) -> Tensor:
    """Returns Σ_j p_ij x_j as [rows, d], p_i being the softmax of leaky relu(x_j · direction + from_target_i) over j.

    Args:
        adjacency: its weights are not used; a row without entries gives zeros.
        x: [cols, d].
        direction, from_target: [d] and [rows], in any precision; logits are computed in fp32.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    out: Tensor = _Attend.apply(x, direction.to(wide), from_target.to(wide), adjacency)  # type: ignore[no-untyped-call]
    return out
