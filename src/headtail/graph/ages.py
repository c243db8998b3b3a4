"""How new links are, where they are dated, and what remains of that without the one link that is asked about."""

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.pairs import sum_by_owner
from headtail.graph.view import GraphView, both_ways

# Age at which a link counts 1/e, as a share of all links that are newer.
FADING = 0.15


class Freshness:
    """How new the entries of a dated view's neighbour rows are: 1 for the newest, fading to 0.

    Of two links between the same nodes, one each way, the newer counts.
    """

    def __init__(self, rows: CSR, view: GraphView) -> None:
        self.rows = rows
        place = rows.find(*both_ways(view.links))[0]
        age = torch.ones(rows.col.numel(), device=rows.device)
        age.scatter_reduce_(0, place, link_ages(view).repeat(2), reduce="amin")
        self.of_entry = (-age / FADING).exp()
        self.total = sum_by_owner(rows.row, self.of_entry[:, None], rows.num_rows).squeeze(1)
        self.most = self._most(self.of_entry)
        is_most = self.of_entry == self.most[rows.row]
        tied = torch.bincount(rows.row[is_most], minlength=rows.num_rows) > 1
        self.second = torch.where(tied, self.most, self._most(self.of_entry.masked_fill(is_most, 0.0)))

    def without(self, nodes: Tensor, others: Tensor, hides: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log sums and maxima [P] over the rows of `nodes`, without the entry of `others` where `hides` [P]."""
        entry, found = self.rows.find(nodes, others)
        found &= hides
        own = torch.where(found, self.of_entry[entry], 0.0) if self.of_entry.numel() else self.total[nodes]
        total = (self.total[nodes] - own).clamp(min=0).log1p()
        is_most = found & (own == self.most[nodes])
        return total, torch.where(is_most, self.second[nodes], self.most[nodes])

    def _most(self, values: Tensor) -> Tensor:
        least = torch.zeros(self.rows.num_rows, device=values.device)
        return least.scatter_reduce_(0, self.rows.row, values, reduce="amax")


def link_ages(view: GraphView) -> Tensor:
    """Returns float32 [E], for every link of a dated view the share of links that are newer."""
    assert view.times is not None
    order = view.times.sort().values
    newer = order.numel() - torch.searchsorted(order, view.times, right=True)
    return newer.float() / max(1, order.numel())
