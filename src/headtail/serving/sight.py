"""What sources of candidates look at: the links of a view as matrices, and what nodes are described by."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtail.graph.kept import Kept, State, rows_state, within
from headtail.graph.matrix import Matrix, Nodes, to_rows, to_scipy
from headtail.graph.view import GraphView
from headtail.serving.described import Described

# The newest links are those of the newest moments that hold this share of all.
NEWEST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Sight:
    """The links of a view, and the nodes' own features if there are any; all in host memory.

    Attributes:
        view: the links.
        described: what nodes are described by, or None.
        kept: what a run kept of its `state`.
        matrices, tables: what was asked for, by the names of sources.
    """

    view: GraphView
    described: Described | None = None
    kept: Kept | None = None
    matrices: dict[str, Matrix] = field(default_factory=dict)
    tables: dict[str, Tensor] = field(default_factory=dict)

    @staticmethod
    def of(view: GraphView, features: Tensor | Described | None = None, kept: Kept | None = None) -> "Sight":
        """Returns what sources see of a view, wherever it lies.

        Args:
            view: the links.
            features: of the nodes, or what was made of them for another view.
            kept: what a run kept of its `state`.
        """
        described = Described(features.cpu()) if isinstance(features, Tensor) else features
        return Sight(view if view.links.device.type == "cpu" else view.to("cpu"), described, kept)

    def matrix_of(self, name: str, make: Callable[[], Matrix]) -> Matrix:
        """Returns the float32 [N, N] of a source: what the run kept, or what `make` makes; once."""
        if name not in self.matrices:
            rows = None if self.kept is None else self.kept.rows(name, self.num_nodes)
            self.matrices[name] = make() if rows is None else to_scipy(rows, np.float32)
        return self.matrices[name]

    def table_of(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        """Returns the float32 [N, columns] of a source: what the run kept, or what `make` makes; once."""
        if name not in self.tables:
            table = None if self.kept is None else self.kept.table(name, self.num_nodes, None)
            self.tables[name] = make() if table is None else table
        return self.tables[name]

    def state(self) -> State:
        """Returns what sources had made."""
        parts = (within(name, rows_state(to_rows(matrix))) for name, matrix in self.matrices.items())
        return {name: tensor for part in parts for name, tensor in part.items()} | self.tables

    @property
    def num_nodes(self) -> int:
        return self.view.num_nodes

    @property
    def directed(self) -> bool:
        return self.view.directed

    @cached_property
    def out(self) -> Matrix:
        """Head × tail, ones."""
        return to_scipy(self.view.out_rows, np.float32)

    @cached_property
    def into(self) -> Matrix:
        """Tail × head, ones."""
        return to_scipy(self.view.in_rows, np.float32) if self.directed else self.out

    @cached_property
    def around(self) -> Matrix:
        """The symmetric graph, ones."""
        return to_scipy(self.view.neighbours, np.float32) if self.directed else self.out

    @cached_property
    def out_degree(self) -> Nodes:
        return np.diff(self.out.indptr).astype(np.int64)

    @cached_property
    def in_degree(self) -> Nodes:
        return np.diff(self.into.indptr).astype(np.int64)

    @cached_property
    def popular(self) -> Nodes:
        """All nodes, those with the most heads first, equals by number."""
        return np.argsort(-self.in_degree, kind="stable")

    @cached_property
    def dated(self) -> bool:
        """Whether links have dates; where all have one, as when the newest of two are hidden, all are the newest."""
        return self.view.times is not None and self.view.times.numel() > 0

    @cached_property
    def newest(self) -> "Sight":
        """The newest links alone, where links are dated."""
        assert self.view.times is not None
        moments, counts = torch.unique(self.view.times, return_counts=True)
        before = counts.flip(0).cumsum(0) < NEWEST_SHARE * counts.sum()
        since = moments[moments.numel() - 1 - int(before.sum())]
        chosen = self.view.links[:, self.view.times >= since]
        return Sight(GraphView(self.num_nodes, self.directed, chosen))

    @cached_property
    def described_links(self) -> Tensor:
        """float32 [N, 3 · d]: what nodes are described by, and its means over the tails and over the heads of each."""
        assert self.described is not None
        rows = self.described.rows.numpy()
        found = np.empty((self.num_nodes, 3 * rows.shape[1]), dtype=np.float32)
        parts = np.split(found, 3, axis=1)
        parts[0][:] = rows
        for part, links in zip(parts[1:], (self.out, self.into), strict=True):
            shares = falling(np.diff(links.indptr).astype(np.int64))[:, None]
            np.multiply(links @ rows, shares, out=part)
        return torch.from_numpy(found)


def falling(values: Nodes, power: float = 1.0) -> NDArray[np.float32]:
    """Returns 1 / values^power, values below 1 counting as 1."""
    return (np.maximum(values, 1).astype(np.float64) ** -power).astype(np.float32)
