"""Structural node features from the training links, for graphs that bring none.

The default is a truncated singular value decomposition of the normalised adjacency: cheap, deterministic, and
it places nodes with alike neighbours near each other. Directed graphs get two halves, one describing what a
node links to and one what links to it. Only training links are used, so nothing held out leaks in. Other makers
register themselves here.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from headtail.graph.view import GraphView
from headtail.registry import Registry

# Makes float32 [num_nodes, dim] from (view, dim, seed, device); fewer columns on tiny graphs.
Structure = Callable[[GraphView, int, int, str], Tensor]
STRUCTURES: Registry[Structure] = Registry("structure")


@STRUCTURES.register("svd")
def structural_features(view: GraphView, dim: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Truncated singular value decomposition of the normalised adjacency; entries have mean square 1."""
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
    halves = [u, vt.T] if view.directed else [u]
    features = np.concatenate([half * np.sqrt(values) for half in halves], axis=1)[:, :dim]
    length = np.linalg.norm(features, axis=1, keepdims=True)
    features = features / np.maximum(length, 1e-12) * np.sqrt(features.shape[1])
    return torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
