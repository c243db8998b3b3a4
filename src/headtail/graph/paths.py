"""Paths of three links between two nodes, weighed in memory that grows with the links and not with their squares."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.graph.csr import CSR, row_pointers
from headtail.graph.pairs import Pairs, blocks_of, sum_by_owner
from headtail.graph.view import GraphView

# Pairs of heads that share a tail are kept for tails of few heads first, up to this many per link and in all.
PAIRS_PER_LINK = 40
MOST_PAIRS = 2**26
# Pairs that are sorted at a time while building.
BLOCK_PAIRS = 2**23


@dataclass(frozen=True)
class ShortPaths:
    """Weighs the paths i → z ← k → j of every pair (i, j); in undirected graphs i – z – k – j.

    A path counts 1 / in-degree(z), so that z hands what it receives on in equal shares (the item-based two-hop score).
    Tails z of very many heads are left out: each share is tiny, their sum is close to how popular j is, and they are
    nearly all of the memory.

    Attributes:
        shared: row i holds the k that share a tail with i, weighed; k is never i.
        share: float32 [N], the share 1 / in-degree(z), 0 where z is left out.
    """

    shared: CSR
    share: Tensor

    @staticmethod
    def build(view: GraphView) -> "ShortPaths":
        """Finds which heads share a tail."""
        into = view.in_rows
        degree = into.degrees
        order = torch.argsort(degree, stable=True)
        most = min(PAIRS_PER_LINK * into.col.numel(), MOST_PAIRS)
        within = degree[order].double().square().cumsum(0) <= most
        kept = torch.zeros(view.num_nodes, dtype=torch.bool, device=degree.device)
        kept[order[within]] = True
        share = torch.where(kept, degree.clamp(min=1).float().reciprocal(), 0.0)
        keys, weights = _shared_pairs(into, share, view.num_nodes)
        row = torch.div(keys, view.num_nodes, rounding_mode="floor")
        shared = CSR(row_pointers(row, view.num_nodes), keys - row * view.num_nodes, view.num_nodes, weights)
        return ShortPaths(shared, share)

    def weigh(self, pairs: Pairs) -> Tensor:
        """Returns float32 [P], the weight of all paths that do not use the hidden link."""
        into = pairs.view.in_rows
        listed = pairs.list_entries(into, pairs.tails)
        entry, found = self.shared.find(pairs.heads[listed.owner], into.col[listed.entry])
        assert self.shared.weight is not None
        weight = self.shared.weight[entry] * found if self.shared.weight.numel() else listed.weight * 0
        # A hidden link i → h makes h one of the tails that i shares with every other head k of h. It is taken out
        # entry by entry, so that a row of which only some are listed does not leave a rest of it.
        share = pairs.hides * self.share[pairs.other]
        through = share[listed.owner]
        if pairs.hidden is not None:
            through = through * pairs.view.out_rows.contains(into.col[listed.entry], pairs.other[listed.owner])
        weight = (weight - through).clamp(min=0) * listed.weight
        return sum_by_owner(listed.owner, weight[:, None], len(pairs)).squeeze(1)


def _shared_pairs(into: CSR, share: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Returns keys i·N + k of all i ≠ k that share a kept tail, ascending, and the sum of the tails' shares."""
    tails = (share > 0).nonzero().squeeze(1)
    keys = [torch.empty(0, dtype=torch.int64, device=tails.device)]
    weights = [torch.empty(0, device=tails.device)]
    for first, last in blocks_of(into.degrees[tails].square(), BLOCK_PAIRS):
        block = tails[first:last]
        owner, entry = into.entries_of(block)
        again, partner = into.entries_of(block[owner])
        head, other = into.col[entry][again], into.col[partner]
        apart = head != other
        some, weight = _summed((head * num_nodes + other)[apart], share[block][owner][again][apart])
        keys.append(some)
        weights.append(weight)
    return _summed(torch.cat(keys), torch.cat(weights))


def _summed(keys: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the distinct keys, ascending, and the sum of the weights of each."""
    keys, order = keys.sort(stable=True)
    distinct, counts = torch.unique_consecutive(keys, return_counts=True)
    owner = torch.repeat_interleave(counts)
    return distinct, sum_by_owner(owner, weights[order][:, None], distinct.numel()).squeeze(1)
