"""Pairs of nodes beside the links of a view: what several kinds of evidence ask about them, found once."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from headtail.graph.csr import CSR, all_entries, row_pointers
from headtail.graph.view import GraphView

# Of a row longer than this, evenly spread entries stand for all. Both ends of a pair are that popular only in
# very dense graphs, where counts are in the hundreds and a sample of them is as good.
MOST_ENTRIES = 256


@dataclass(frozen=True)
class Listing:
    """Entries of rows, at most `MOST_ENTRIES` of each.

    Attributes:
        owner: int64 [K], ascending, the position of the row that each entry was listed for.
        entry: int64 [K], its place in `col`.
        weight: float32 [K], how many entries of its row it stands for.
    """

    owner: Tensor
    entry: Tensor
    weight: Tensor


def list_entries(rows: CSR, wanted: Tensor) -> Listing:
    """Lists the entries of the rows `wanted` [P]."""
    degree = rows.degrees[wanted]
    listed = degree.clamp(max=MOST_ENTRIES)
    owner, offset = all_entries(listed)
    stride = degree.double() / listed.clamp(min=1)
    offset = (offset * stride[owner]).long()  # in doubles, exact for rows that are listed whole
    return Listing(owner, rows.row_ptr[wanted][owner] + offset, stride.float()[owner])


def sum_by_owner(owner: Tensor, values: Tensor, size: int) -> Tensor:
    """Returns [size, c]: sums of values [K, c] whose `owner` [K], ascending, is the row; always the same numbers."""
    places = torch.arange(owner.numel(), device=owner.device)
    return CSR(row_pointers(owner, size), places, owner.numel()).matmul(values)


def blocks_of(work: Tensor, most: int) -> list[tuple[int, int]]:
    """Cuts items into consecutive blocks (first, last), each of about `most` in all of the `work` [n] of its items."""
    if work.numel() == 0:
        return []
    ends = work.cumsum(0)
    steps = torch.arange(1, int(ends[-1]) // most + 1, device=work.device) * most
    return list(pairwise(sorted({0, *torch.searchsorted(ends, steps).tolist(), work.numel()})))


@dataclass(frozen=True)
class Common:
    """Common neighbours of pairs, in the symmetric graph.

    Attributes:
        owner: int64 [K], ascending, the pair.
        node: int64 [K], the neighbour z of both ends.
        head_entry, tail_entry: int64 [K], the places of (head, z) and (tail, z) in the neighbour rows.
        weight: float32 [K], how many common neighbours it stands for.
    """

    owner: Tensor
    node: Tensor
    head_entry: Tensor
    tail_entry: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Pairs:
    """Pairs (heads[p], tails[p]), [P] each, as seen from a view whose tensors live where the pairs do.

    `near` bool [P] tells, where it is known, which pairs have neighbours or short paths in common at all.
    `hidden` [P] is for each pair a node whose link from the head is not looked at; by default the tail, since a link
    is no evidence for itself. A negative that is compared with a link has that link's tail here, so that both are seen
    in the same graph.
    """

    view: GraphView
    heads: Tensor
    tails: Tensor
    near: Tensor | None = None
    hidden: Tensor | None = None

    def __len__(self) -> int:
        return self.heads.numel()

    @cached_property
    def other(self) -> Tensor:
        """int64 [P], the node whose link from the head is hidden."""
        return self.tails if self.hidden is None else self.hidden

    @cached_property
    def hides(self) -> Tensor:
        """bool [P], whether there is a link to hide."""
        return self.view.out_rows.contains(self.heads, self.other)

    @cached_property
    def hides_own(self) -> Tensor:
        """bool [P], whether it is the very link that is asked about."""
        return self.hides & (self.other == self.tails)

    @cached_property
    def common(self) -> Common:
        """The common neighbours, found by looking up the shorter of two rows in the longer one.

        The tail itself is never among them, since there are no self-loops; another node whose link is hidden is left
        out, in directed graphs also where a link leads back.
        """
        rows = self.view.neighbours
        swapped = rows.degrees[self.heads] > rows.degrees[self.tails]
        short, long = torch.where(swapped, self.tails, self.heads), torch.where(swapped, self.heads, self.tails)
        listed = self.list_entries(rows, short)
        entry, found = rows.find(long[listed.owner], rows.col[listed.entry])
        if self.hidden is not None:
            found &= ~self.hides[listed.owner] | (rows.col[listed.entry] != self.other[listed.owner])
        hit = found.nonzero().squeeze(1)
        owner, of_short, of_long = listed.owner[hit], listed.entry[hit], entry[hit]
        exchanged = swapped[owner]
        head_entry = torch.where(exchanged, of_long, of_short)
        tail_entry = torch.where(exchanged, of_short, of_long)
        return Common(owner, rows.col[of_short], head_entry, tail_entry, listed.weight[hit])

    def list_entries(self, rows: CSR, wanted: Tensor) -> Listing:
        """Lists the entries of the row `wanted` [P] of every pair that may be near."""
        if self.near is None:
            return list_entries(rows, wanted)
        pair = self.near.nonzero().squeeze(1)
        listed = list_entries(rows, wanted[pair])
        return Listing(pair[listed.owner], listed.entry, listed.weight)

    def sum_over_common(self, values: Tensor) -> Tensor:
        """Returns [P, c], the sums of values [K, c] of common neighbours."""
        return sum_by_owner(self.common.owner, values * self.common.weight[:, None], len(self))
