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
PROBES, SLACK, UNIT = 4, 0.04, 128


def sizes_for(sampler: BatchSampler, plans: tuple[Plan | None, ...], orders: Iterable[Tensor], seed: int) -> Sizes:
    """Returns sizes for the batches of epochs that deal rows, or links, in the given orders.

    Positives are counted beforehand, so they always fit. Everything else is what a few batches need and some more, but
    no more than there can be; it is a sum over many nodes, and differs little between batches.
    """
    positives, per_positive = most_positives(sampler, orders), sampler.negatives_per_positive
    generator = torch.Generator(device=sampler.graph.device).manual_seed(seed)
    seen: Capacity | None = None
    fewest = positives
    for _, batch in zip(range(PROBES), sampler.epoch(generator), strict=False):
        size = Capacity.of(batch)
        seen = size if seen is None else seen.roomier(size, 0.0, 1)
        fewest = min(fewest, batch.positive.shape[1])
    assert seen is not None
    # Nodes of pairs grow with the positives.
    more = (1 + SLACK) * positives / max(1, fewest)
    pairs = positives * (1 + per_positive)
    edges = isinstance(sampler.batches, EdgeBatches)
    rows = pairs if edges else int(sampler.batches.bounds.diff().max())
    nodes = sampler.graph.num_nodes
    heads = min(nodes, rows, _room(seen.rows, more))
    every = max(heads, min(nodes, rows + pairs, _room(seen.nodes, more)))
    if not plans:
        return Sizes(heads, positives, every)
    targets = [heads if sampler.gnn_scope == "rows" else every]
    grown = 1 + SLACK if sampler.gnn_scope == "rows" and not edges else more
    blocks = seen.blocks[::-1]
    for count, _ in blocks[1:]:
        targets.append(max(targets[-1], min(nodes, _room(count, grown))))
    entries = [_room(count, grown) for _, count in blocks]
    return Sizes(heads, positives, every, tuple(zip(targets, entries, strict=True)))


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


def _room(count: int, factor: float) -> int:
    return -(-int(count * factor + 8 * max(1, count) ** 0.5) // UNIT) * UNIT
