"""Local numbers for the distinct nodes of a batch, in arrays of fixed size, without asking the host for any."""

import torch
from torch import Tensor

from headtail.kernels.numbering import extend_list, marks_shape


class FixedNumbering:
    """`Numbering` for lists that are padded with the node number N: it stands for no node.

    Marks are summed up over all nodes, which orders the found ones without sorting: O(N + batch).

    Attributes:
        place: int32 [N + 1], of every node of the list that was made last; its capacity for N.
    """

    def __init__(self, num_nodes: int, device: torch.device) -> None:
        self.nothing = num_nodes
        self.place = torch.zeros(num_nodes + 1, dtype=torch.int32, device=device)
        self._marks = torch.zeros(marks_shape(num_nodes), dtype=torch.int8, device=device)
        self._nobody = torch.zeros(0, dtype=torch.int64, device=device)
        self._none = torch.zeros((), dtype=torch.int64, device=device)

    def distinct(self, nodes: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
        """Returns the distinct ones of `nodes`, ascending, and how many there are; numbers them so."""
        return self.extend(self._nobody, self._none, nodes, capacity)

    def extend(self, first: Tensor, count: Tensor, others: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
        """Returns `first`, then the nodes of `others` that are not in it, and how many there are; numbers them so.

        `first` and `others` are padded; the rest is as in `extend_list`.
        """
        return extend_list(self.place, self._marks, first, count, others, capacity)

    def local(self, nodes: Tensor) -> Tensor:
        """Returns the places of listed nodes, int64; the list's capacity for N."""
        return self.place[nodes].long()
