"""Batches of one size: padded, so that a recorded sequence of GPU kernels can be played again for every one of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.sampling.neighbours import Block, Neighbourhood
from headtail.sampling.places import PairPlaces
from headtail.sampling.sampler import Batch, Counts


@dataclass(frozen=True)
class Capacity:
    """Sizes of padded batches.

    Attributes:
        rows, nodes, pairs: of the batch; pairs are positives and negatives.
        blocks: (targets, entries) of every block, the innermost first.
        sources: nodes that feed the innermost block.
    """

    rows: int
    nodes: int
    pairs: int
    blocks: tuple[tuple[int, int], ...] = ()
    sources: int = 0

    @staticmethod
    def of(batch: Batch) -> "Capacity":
        """Returns the sizes of a batch as it is."""
        blocks: Sequence[Block] = () if batch.neighbourhood is None else batch.neighbourhood.blocks
        sizes = tuple((block.num_targets, block.adjacency.col.numel()) for block in blocks)
        sources = 0 if batch.neighbourhood is None else batch.neighbourhood.nodes.numel()
        pairs = batch.positive.shape[1] + batch.negative.shape[1]
        return Capacity(batch.num_rows, batch.nodes.numel(), pairs, sizes, sources)

    def holds(self, other: "Capacity") -> bool:
        return all(mine >= theirs for mine, theirs in zip(self._sizes(), other._sizes(), strict=True))

    def roomier(self, other: "Capacity", slack: float, unit: int) -> "Capacity":
        """Returns sizes that hold both with some slack, rounded up to multiples of `unit`."""
        sizes = [
            -(-int(max(mine, theirs) * (1 + slack)) // unit) * unit
            for mine, theirs in zip(self._sizes(), other._sizes(), strict=True)
        ]
        pairs = tuple(zip(sizes[4::2], sizes[5::2], strict=True))
        return Capacity(sizes[0], sizes[1], sizes[2], pairs, sizes[3])

    def _sizes(self) -> list[int]:
        return [self.rows, self.nodes, self.pairs, self.sources, *(size for block in self.blocks for size in block)]


def padded(batch: Batch, capacity: Capacity) -> Batch:
    """Returns the batch with everything padded to the capacity, and counts of what is real.

    Nodes are padded by node 0 and pairs by the pair of places (0, 0); nothing refers to the former, and the latter
    count for nothing in the loss. Rows of a padded adjacency have no entries. What a backward pass sums over is
    found here, from real entries alone.
    """
    device = batch.nodes.device
    counts = [batch.nodes.numel(), batch.positive.shape[1], batch.positive.shape[1] + batch.negative.shape[1]]
    nodes, positives, pairs = (torch.tensor(count, device=device) for count in counts)
    # What is no negative belongs to itself: many that belong to one would be summed up one by one in backward.
    itself = torch.arange(capacity.pairs, device=device)
    negative_of = torch.cat([itself[: counts[1]], batch.negative_of, itself[counts[2] :]])
    return Batch(
        nodes=_longer(batch.nodes, capacity.nodes),
        num_rows=capacity.rows,
        positive=batch.positive,
        negative=batch.negative,
        negative_of=negative_of,
        neighbourhood=None if batch.neighbourhood is None else _padded_neighbourhood(batch.neighbourhood, capacity),
        graph=batch.graph,
        evidence=None if batch.evidence is None else F.pad(batch.evidence, (0, 0, 0, capacity.pairs - counts[2])),
        counts=Counts(nodes, positives, pairs),
        places=_padded_pairs(batch.pairs, batch.num_rows, capacity),
        unpadded=batch,
    )


def _longer(values: Tensor, size: int) -> Tensor:
    return F.pad(values, (0, size - values.numel()))


def _padded_pairs(pairs: PairPlaces, rows: int, capacity: Capacity) -> PairPlaces:
    by_left = _padded_rows(pairs.by_left(rows), capacity.rows, capacity.pairs)
    by_right = _padded_rows(pairs.by_right(capacity.nodes), capacity.nodes, capacity.pairs)
    longer = F.pad(pairs.pairs, (0, capacity.pairs - pairs.pairs.shape[1]))
    return PairPlaces(longer, {(0, capacity.rows): by_left, (1, capacity.nodes): by_right})


def _padded_neighbourhood(neighbourhood: Neighbourhood, capacity: Capacity) -> Neighbourhood:
    blocks: list[Block] = []
    innermost = neighbourhood.blocks[0].adjacency.num_cols if neighbourhood.reads_features else capacity.sources
    sources = [innermost, *(targets for targets, _ in capacity.blocks[:-1])]
    for block, (targets, entries), columns in zip(neighbourhood.blocks, capacity.blocks, sources, strict=True):
        real = block.adjacency
        adjacency = _padded_rows(real, targets, entries, columns)
        if blocks:  # the innermost block reads features, which have no gradient
            adjacency.__dict__["transposed"] = _padded_rows(real.transposed, columns, entries, targets)
        count = torch.tensor(block.num_targets, device=real.device)
        blocks.append(Block(adjacency, block.num_expanded, count))
    return replace(neighbourhood, nodes=_longer(neighbourhood.nodes, capacity.sources), blocks=blocks)


def _padded_rows(rows: CSR, num_rows: int, entries: int, num_cols: int | None = None) -> CSR:
    """Returns rows with empty ones after them, and room for more entries that no row owns."""
    missing = num_rows - rows.num_rows
    row_ptr = rows.row_ptr if missing <= 0 else torch.cat([rows.row_ptr, rows.row_ptr[-1:].expand(missing)])
    weight = None if rows.weight is None else _longer(rows.weight, entries)
    return CSR(row_ptr, _longer(rows.col, entries), num_cols or entries, weight)


def tensors_of(batch: Batch) -> Iterator[Tensor]:
    """Yields every tensor of a padded batch, in an order that is the same for all batches of one capacity."""
    assert batch.counts is not None
    assert batch.places is not None
    yield from (batch.nodes, batch.negative_of, batch.counts.nodes, batch.counts.positives, batch.counts.pairs)
    yield batch.places.pairs
    groups = batch.places.by_left(batch.num_rows), batch.places.by_right(batch.nodes.numel())
    for rows in groups:
        yield from (rows.row_ptr, rows.col)
    if batch.evidence is not None:
        yield batch.evidence
    if batch.neighbourhood is not None:
        yield batch.neighbourhood.nodes
        for place, block in enumerate(batch.neighbourhood.blocks):
            assert block.count is not None
            yield block.count
            for rows in (block.adjacency, block.adjacency.transposed) if place else (block.adjacency,):
                yield from (rows.row_ptr, rows.col)
                if rows.weight is not None:
                    yield rows.weight


def cloned(batch: Batch) -> Batch:
    """Returns a padded batch of its own memory, equal to the given one."""
    assert batch.counts is not None
    assert batch.places is not None
    counts = Counts(batch.counts.nodes.clone(), batch.counts.positives.clone(), batch.counts.pairs.clone())
    rows, columns = batch.num_rows, batch.nodes.numel()
    groups = {(0, rows): _clone(batch.places.by_left(rows)), (1, columns): _clone(batch.places.by_right(columns))}
    neighbourhood = batch.neighbourhood
    if neighbourhood is not None:
        blocks = [
            replace(
                block, adjacency=_clone(block.adjacency), count=None if block.count is None else block.count.clone()
            )
            for block in neighbourhood.blocks
        ]
        neighbourhood = replace(neighbourhood, nodes=neighbourhood.nodes.clone(), blocks=blocks)
    return replace(
        batch,
        nodes=batch.nodes.clone(),
        negative_of=batch.negative_of.clone(),
        neighbourhood=neighbourhood,
        evidence=None if batch.evidence is None else batch.evidence.clone(),
        counts=counts,
        places=PairPlaces(batch.places.pairs.clone(), groups),
        unpadded=None,
    )


def _clone(rows: CSR) -> CSR:
    weight = None if rows.weight is None else rows.weight.clone()
    copy = CSR(rows.row_ptr.clone(), rows.col.clone(), rows.num_cols, weight, rows.longest)
    if "transposed" in rows.__dict__:
        copy.__dict__["transposed"] = _clone(rows.transposed)
    return copy
