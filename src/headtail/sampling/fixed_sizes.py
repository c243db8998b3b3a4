"""How much room batches of fixed size need: what is known of every epoch, and what a few batches show."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.neighbours import Plan
from headtail.sampling.batches import EdgeBatches
from headtail.sampling.fixed import Sizes
from headtail.sampling.padding import Capacity
from headtail.sampling.sampler import BatchSampler

# Batches that are drawn to see how large they are; what is left free above them; and what sizes are multiples of.
PROBES, SLACK, UNIT = 4, 0.02, 128


def sizes_for(sampler: BatchSampler, plans: tuple[Plan | None, ...], orders: Iterable[Tensor], seed: int) -> Sizes:
    """Returns sizes for the batches of epochs that deal rows, or links, in the given orders.

    Positives are counted beforehand, so they always fit. Everything else is what a few batches need and some more, but
    no more than there can be; it is a sum over many nodes, and differs little between batches.
    """
    positives = most_positives(sampler, orders)
    generator = torch.Generator(device=sampler.graph.device).manual_seed(seed)
    edges = isinstance(sampler.batches, EdgeBatches)
    heads = nodes = 0
    targets, entries = [0] * len(plans), [0] * len(plans)
    for _, batch in zip(range(PROBES), sampler.epoch(generator), strict=False):
        seen = Capacity.of(batch)
        # Nodes of pairs grow with the positives; what heads see of the graph grows with the heads, or, where they see
        # all of their neighbours, about as the positives.
        more = positives / max(1, batch.positive.shape[1])
        below = 1.0 if sampler.gnn_scope == "rows" and not edges and None not in plans else more
        heads, nodes = max(heads, _room(seen.rows * more)), max(nodes, _room(seen.nodes * more))
        for layer, (count, edge_count) in enumerate(reversed(seen.blocks)):
            targets[layer] = max(targets[layer], _room(count * below))
            entries[layer] = max(entries[layer], _room(edge_count * below))
    pairs, every = positives * (1 + sampler.negatives_per_positive), sampler.graph.num_nodes
    rows = pairs if edges else int(sampler.batches.bounds.diff().max())
    heads = min(every, rows, heads)
    nodes = max(heads, min(every, rows + pairs, nodes))
    if not plans:
        return Sizes(heads, positives, nodes)
    targets[0] = heads if sampler.gnn_scope == "rows" else nodes
    for layer in range(1, len(plans)):
        targets[layer] = max(targets[layer - 1], min(every, targets[layer]))
    return Sizes(heads, positives, nodes, tuple(zip(targets, entries, strict=True)))


def most_positives(sampler: BatchSampler, orders: Iterable[Tensor]) -> int:
    """Returns the largest number of positives that a batch has in epochs of the given orders."""
    bounds = sampler.batches.bounds
    if isinstance(sampler.batches, EdgeBatches):
        return int(bounds.diff().max())
    degrees, most = sampler.batches.supervision.degrees, torch.zeros((), dtype=torch.int64, device=sampler.graph.device)
    bounds = bounds.to(degrees.device)
    for order in orders:
        most = torch.maximum(most, F.pad(degrees[order].cumsum(0), (1, 0))[bounds].diff().max())
    return max(1, int(most))


def _room(count: float) -> int:
    """Returns so many and some more: a share, and for small numbers some standard deviations of a count."""
    return -(-int(count * (1 + SLACK) + 8 * max(1.0, count) ** 0.5) // UNIT) * UNIT
