"""What nodes are described by: their features as directions, and which nodes are most alike."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.graph.matrix import Matrix, rows_of

# So many others that are most alike are known of every node.
ALIKE = 50
# Up to so many nodes, all are compared with all.
EXACT = 2**13
# Beyond that, nodes of a cluster, about; each is compared with those of the clusters closest to its own, and with so
# many at most.
MEMBERS, CLUSTERS_CLOSE, MOST_COMPARED = 256, 8, 2**12
# Clusters are found on so many nodes of each, in so many rounds.
SAMPLE, ROUNDS = 32, 6
# Cosines that are held at a time.
CELLS = 2**23


@dataclass(frozen=True, eq=False)
class Described:
    """Features of the nodes, float [N, d], in host memory; the same for every view of a graph."""

    features: Tensor

    @cached_property
    def rows(self) -> Tensor:
        """float32 [N, d]: features as centred rows of length 1."""
        features = self.features.float()
        return F.normalize(features - features.mean(dim=0), dim=1)

    @cached_property
    def alike(self) -> Matrix:
        """[N, N]: squares of the cosines of every node with the others that are most alike, none below 0."""
        values, near = most_alike(self.rows, min(ALIKE, len(self.rows)))
        return rows_of(values.clamp(min=0).square().numpy(), near.numpy(), len(self.rows))


@torch.no_grad()
def most_alike(rows: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Returns the largest products of rows [N, d] of length 1 with each other, [N, most], and with whom; 0 for itself.

    Of many rows, only those of close clusters are compared, so a few of the most alike may be missed.
    """
    n = len(rows)
    order, starts, close = _clusters(rows) if n > EXACT else (torch.arange(n), [0, n], torch.zeros(1, 1).long())
    values, near = torch.zeros(n, most), torch.zeros(n, most, dtype=torch.long)
    members = [order[a:b] for a, b in pairwise(starts)]
    for cluster, mine in enumerate(members):
        others = torch.cat([members[other] for other in close[cluster].tolist()])
        others = others[: MOST_COMPARED if n > EXACT else n]
        theirs, least = rows[others].T, min(most, others.numel())
        for some in torch.split(mine, max(1, CELLS // max(1, others.numel()))):
            found = rows[some] @ theirs
            found.masked_fill_(others == some[:, None], 0.0)
            # NumPy finds the largest of a row ten times faster than torch does on a CPU.
            best = torch.from_numpy(np.argpartition(found.numpy(), -least, axis=1)[:, -least:].copy())
            values[some, :least], near[some, :least] = found.gather(1, best), others[best]
    return values, near


def _clusters(rows: Tensor) -> tuple[Tensor, list[int], Tensor]:
    """Returns nodes [N] cluster by cluster, where each begins and the last ends, and the closest of each, itself first.

    By spherical k-means over a sample of the rows.
    """
    generator = torch.Generator().manual_seed(0)
    count = len(rows) // MEMBERS
    some = rows[torch.randperm(len(rows), generator=generator)[: SAMPLE * count]]
    centres = some[:count].clone()
    for _ in range(ROUNDS):
        mine = _closest(some, centres)
        sums = torch.zeros_like(centres).index_add_(0, mine, some)
        filled = torch.bincount(mine, minlength=count) > 0
        centres = F.normalize(torch.where(filled[:, None], sums, centres), dim=1)
    mine = _closest(rows, centres)
    starts = [0, *torch.bincount(mine, minlength=count).cumsum(0).tolist()]
    cosines = (centres @ centres.T).fill_diagonal_(2.0)
    return mine.argsort(stable=True), starts, cosines.topk(min(CLUSTERS_CLOSE, count), dim=1).indices


def _closest(rows: Tensor, centres: Tensor) -> Tensor:
    blocks = torch.split(rows, max(1, CELLS // len(centres)))
    return torch.cat([(block @ centres.T).argmax(dim=1) for block in blocks])
