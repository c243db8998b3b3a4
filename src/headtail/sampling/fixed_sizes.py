"""How much room batches of fixed size need: what is known of every epoch, and what a few batches show.

Batches differ: one with a hub has many more links than others. So there are several sizes, and a batch is drawn in the
smallest one that holds its positives.
"""

from collections.abc import Iterable
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.neighbours import Plan
from headtail.sampling.batches import EdgeBatches
from headtail.sampling.fixed import Sizes
from headtail.sampling.padding import Capacity
from headtail.sampling.sampler import Batch, BatchSampler

# Batches that are drawn to see how large they are; what is left free above the largest of them, as a share and in
# square roots of a count (batches of two graphs were at most 0.8 % larger, or 3.4 roots); what sizes are multiples of.
PROBES, SLACK, ROOTS, UNIT = 8, 0.01, 3, 128
# Sizes at most; values and quantiles they are chosen from; and the share of room that one more of them must save.
MOST_SIZES, CANDIDATES, WORTH = 5, 20, 0.01
# Batches that there must be for every size: recording one takes as long as learning a good many.
USES = 20


def sizes_for(
    sampler: BatchSampler, plans: tuple[Plan | None, ...], orders: Iterable[Tensor], seed: int
) -> tuple[Sizes, ...]:
    """Returns sizes, ascending, for the batches of epochs that deal rows, or links, in the given orders.

    Positives are counted beforehand, so they always fit the last. Everything else is what a few batches need and some
    more, but no more than there can be; it is a sum over many nodes, and differs little between batches of as many
    positives.
    """
    generator = torch.Generator(device=sampler.graph.device).manual_seed(seed)
    probes = [batch for _, batch in zip(range(PROBES), sampler.epoch(generator), strict=False)]
    counts = torch.cat([positives_of(sampler, order) for order in orders])
    return tuple(_sizes(sampler, plans, most, probes) for most in rooms(counts))


def positives_of(sampler: BatchSampler, order: Tensor) -> Tensor:
    """Returns how many positives each batch of an epoch has that deals in this order: int64 [batches] on the CPU."""
    bounds = sampler.batches.bounds
    if isinstance(sampler.batches, EdgeBatches):
        return bounds.diff()
    degrees = sampler.batches.supervision.degrees
    return F.pad(degrees[order].cumsum(0), (1, 0))[bounds.to(degrees.device)].diff().cpu()


def rooms(counts: Tensor) -> tuple[int, ...]:
    """Returns a few numbers, ascending: the least that is enough for a count leaves little room unused on average."""
    ordered = counts.sort().values
    least, largest = int(ordered[0]), max(_up(int(ordered[-1])), UNIT)
    even = torch.linspace(least, largest, CANDIDATES).long()
    common = ordered[torch.linspace(0, ordered.numel() - 1, CANDIDATES).long()]
    candidates = sorted({_up(count) for count in torch.cat([even, common]).tolist()} - {0, largest})
    held = dict(
        zip(candidates, torch.searchsorted(ordered, torch.tensor(candidates), right=True).tolist(), strict=True)
    )

    def taken(chosen: tuple[int, ...]) -> int:
        """Room that all counts take together."""
        total = before = 0
        for room in chosen:
            total, before = total + room * (held[room] - before), held[room]
        return total + largest * (ordered.numel() - before)

    best: tuple[int, ...] = ()
    for number in range(1, min(MOST_SIZES, counts.numel() // USES, len(candidates) + 1)):
        more = min(combinations(candidates, number), key=taken)
        if taken(more) < (1 - WORTH) * taken(best):
            best = more
    return (*best, largest)


def _sizes(sampler: BatchSampler, plans: tuple[Plan | None, ...], positives: int, probes: list[Batch]) -> Sizes:
    """Returns sizes for batches of so many positives, by what the probes show."""
    edges = isinstance(sampler.batches, EdgeBatches)
    heads = nodes = 0
    targets, entries = [0] * len(plans), [0] * len(plans)
    for batch in probes:
        seen = Capacity.of(batch)
        # Nodes of pairs grow with the positives; what heads see of the graph grows with the heads, or, where they see
        # all of their neighbours, about as the positives.
        more = positives / max(1, batch.positive.shape[1])
        below = 1.0 if sampler.gnn_scope == "rows" and not edges and None not in plans else more
        heads, nodes = max(heads, _room(seen.rows * more)), max(nodes, _room(seen.nodes * more))
        for layer, (count, edge_count) in enumerate(reversed(seen.blocks)):
            targets[layer] = max(targets[layer], _room(count * below))
            entries[layer] = max(entries[layer], _room(edge_count * below))
    pairs, every = positives * (1 + sampler.negatives_per_positive), _up(sampler.graph.num_nodes)
    rows = pairs if edges else _up(int(sampler.batches.bounds.diff().max()))
    heads = min(every, rows, heads) if edges else min(every, rows)
    nodes = max(heads, min(every, rows + pairs, nodes))
    if not plans:
        return Sizes(heads, positives, nodes)
    targets[0] = heads if sampler.gnn_scope == "rows" else nodes
    for layer in range(1, len(plans)):
        targets[layer] = max(targets[layer - 1], min(every, targets[layer]))
    return Sizes(heads, positives, nodes, tuple(zip(targets, entries, strict=True)))


def _up(count: int) -> int:
    """Returns the next multiple of what sizes are multiples of: rows that start at such places are read faster."""
    return -(-count // UNIT) * UNIT


def _room(count: float) -> int:
    """Returns so many and some more: a share, and for small numbers some standard deviations of a count."""
    return _up(int(count * (1 + SLACK) + ROOTS * max(1.0, count) ** 0.5))
