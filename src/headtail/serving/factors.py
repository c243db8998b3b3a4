"""Factors of a graph's links: the few directions in which the tails of heads differ most."""

import torch
from torch import Tensor

from headtail.graph.view import GraphView

# Directions, of which there are few for the nodes; some more that steady them, and rounds that find them.
DIRECTIONS, NODES_EACH, SPARE, ROUNDS = 128, 4, 16, 6


def link_factors(view: GraphView) -> tuple[Tensor, Tensor]:
    """Returns float32 [N, k] each: what a link to a node adds to its head, and what a tail answers with.

    The normalised links D^-½ A D^-½ are about U Σ Vᵀ. A head is the sum of D^-½ V over its tails, and a tail answers
    with D^½ V: their product is the share of A that lies in these directions, of heads that are not scaled.
    """
    out, into, n = view.out_rows, view.in_rows, view.num_nodes
    from_head = out.degrees.clamp(min=1).float().rsqrt()[:, None]
    to_tail = into.degrees.clamp(min=1).float().rsqrt()[:, None]
    # As many as nodes would know every link, and say nothing of what is none.
    kept = max(1, min(DIRECTIONS, n // NODES_EACH))
    width = min(kept + SPARE, n)
    found = torch.randn(n, width, generator=torch.Generator().manual_seed(0))
    for _ in range(ROUNDS):
        heads = from_head * out.matmul(to_tail * found)
        found = torch.linalg.qr(to_tail * into.matmul(from_head * heads)).Q
    values, turned = torch.linalg.eigh(_gram(from_head * out.matmul(to_tail * found)))
    best = found @ turned[:, values.argsort(descending=True)[:kept]]
    linked = (into.degrees > 0)[:, None]
    return to_tail * best * linked, best / to_tail * linked


def _gram(x: Tensor) -> Tensor:
    return x.T @ x
