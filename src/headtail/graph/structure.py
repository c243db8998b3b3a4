"""Structural node features, for graphs that bring none: what the links of a view say about each node.

A model must not learn a link from features that were made with it, or training and test see different worlds. So
structure is made in two steps: what all views share is found once from the training links, and the columns of the
nodes are read off the links of the view at hand, which may hide some. Makers register themselves here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.view import GraphView
from headtail.registry import Registry


class Structure(Protocol):
    """Structural columns of all nodes."""

    @property
    def width(self) -> int:
        """Columns."""
        ...

    def columns(self, view: GraphView) -> Tensor:
        """Returns float32 [num_nodes, width], what the links of a view say; on the device of both."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Returns all that it consists of, by name."""
        ...

    def to(self, device: torch.device | str) -> "Structure":
        """Returns it on another device."""
        ...


# Singular directions of less than this share of the first one's value are left empty.
LEAST_WEIGHT = 0.01
# Makes structure from (view, dim, seed, device); it may have fewer columns on tiny graphs.
StructureMaker = Callable[[GraphView, int, int, str], Structure]
STRUCTURES: Registry[StructureMaker] = Registry("structure")


@dataclass(frozen=True)
class SpectralBasis:
    """Singular directions of the normalised adjacency Ã ≈ U Σ Vᵀ: a node is the sum of the directions of its links.

    Attributes:
        per_tail: float32 [N, k], D^-½ V Σ^-½, what a link to a node adds to its head.
        per_head: float32 [N, k], D^-½ U Σ^-½, what a link from a node adds to its tail; None in undirected graphs.
        width: columns, a half for each orientation in directed graphs.
    """

    per_tail: Tensor
    per_head: Tensor | None
    width: int

    def columns(self, view: GraphView) -> Tensor:
        """Projects the rows of the view on the basis; every row has mean square 1, or is 0 without links."""
        halves = [_project(view.out_rows, self.per_tail)]
        if self.per_head is not None:
            halves.append(_project(view.in_rows, self.per_head))
        found = torch.cat(halves, dim=1)[:, : self.width]
        return math.sqrt(self.width) * F.normalize(found, dim=1)

    def tensors(self) -> dict[str, Tensor]:
        both = {"per_tail": self.per_tail}
        return both if self.per_head is None else both | {"per_head": self.per_head}

    def to(self, device: torch.device | str) -> "SpectralBasis":
        per_head = None if self.per_head is None else self.per_head.to(device)
        return SpectralBasis(self.per_tail.to(device), per_head, self.width)


@dataclass(frozen=True)
class FixedColumns:
    """Columns [N, d] that are the same whatever a view shows."""

    table: Tensor

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def columns(self, view: GraphView) -> Tensor:
        """Returns the table."""
        return self.table

    def tensors(self) -> dict[str, Tensor]:
        return {"table": self.table}

    def to(self, device: torch.device | str) -> "FixedColumns":
        return FixedColumns(self.table.to(device))


def read_structure(tensors: dict[str, Tensor], width: int) -> Structure:
    """Returns the structure of `width` columns that consists of these tensors.

    Raises:
        KeyError: some are missing.
    """
    if "table" in tensors:
        return FixedColumns(tensors["table"])
    per_tail, per_head = tensors["per_tail"], tensors.get("per_head")
    columns = per_tail.shape[1] * (1 if per_head is None else 2)
    if not columns - 1 <= width <= columns:  # an odd width leaves out the last column of the second half
        raise KeyError(f"structure of {width} columns, of which {columns} are there")
    return SpectralBasis(per_tail, per_head, width)


@STRUCTURES.register("svd")
def spectral_structure(view: GraphView, dim: int, seed: int = 0, device: str = "cpu") -> SpectralBasis:
    """Truncated singular value decomposition of the normalised adjacency: nodes with alike neighbours are alike.

    Directed graphs get two halves, one describing what a node links to and one what links to it.
    """
    import scipy.sparse as sp  # a second and more with the next, which few commands have to wait for
    from sklearn.utils.extmath import randomized_svd

    rows = view.out_rows
    matrix = sp.csr_array(
        (np.ones(rows.col.numel(), dtype=np.float32), rows.col.numpy(), rows.row_ptr.numpy()),
        shape=(view.num_nodes, view.num_nodes),
    )
    left = 1.0 / np.sqrt(np.maximum(np.asarray(matrix.sum(axis=1)).ravel(), 1))
    right = 1.0 / np.sqrt(np.maximum(np.asarray(matrix.sum(axis=0)).ravel(), 1))
    normal = sp.csr_array(sp.diags_array(left) @ matrix @ sp.diags_array(right)).astype(np.float32)
    rank = max(1, min(-(-dim // 2) if view.directed else dim, view.num_nodes - 1))
    u, values, vt = randomized_svd(normal, rank, n_iter=4, random_state=seed % 2**32)
    # A direction of hardly any weight is noise, and would be much noise where some links are hidden.
    shrink = np.where(values > LEAST_WEIGHT * values[0], 1.0 / np.sqrt(np.maximum(values, 1e-12)), 0.0)
    per_tail, per_head = (
        torch.from_numpy(np.ascontiguousarray(half * scale[:, None] * shrink, dtype=np.float32))
        for half, scale in ((vt.T, right), (u, left))
    )
    width = min(dim, 2 * rank) if view.directed else rank
    return SpectralBasis(per_tail, per_head if view.directed else None, width)


def _project(rows: CSR, basis: Tensor) -> Tensor:
    """Returns D^-½ A B."""
    return rows.matmul(basis) * rows.degrees.clamp(min=1).rsqrt()[:, None]
