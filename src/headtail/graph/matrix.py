"""Rows of a graph as SciPy's sparse matrices, whose products are fast on a CPU."""

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from headtail.graph.csr import CSR

# Quoted, because older SciPy knows the type parameters only in its stubs.
Matrix: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"
Nodes = NDArray[np.int64]


def to_scipy(rows: CSR, dtype: DTypeLike = np.float64) -> Matrix:
    """Returns rows as a matrix, of ones where they have no weights."""
    columns, pointers = rows.col.cpu().numpy(), rows.row_ptr.cpu().numpy()
    if max(columns.size, rows.num_cols) < 2**31:
        # SciPy's kernels move half the memory with narrow indices, but it does not narrow them itself.
        columns, pointers = columns.astype(np.int32, copy=False), pointers.astype(np.int32)
    weights = np.ones(columns.size, dtype) if rows.weight is None else rows.weight.cpu().numpy()
    values = weights.astype(dtype, copy=False)
    return sparse.csr_array((values, columns, pointers), shape=(rows.num_rows, rows.num_cols))


def to_rows(matrix: Matrix) -> CSR:
    """Returns a matrix as weighted rows."""
    pointers, columns, values = (torch.from_numpy(each) for each in (matrix.indptr, matrix.indices, matrix.data))
    return CSR(pointers.long(), columns, matrix.shape[1], values.float())


def scale_columns(matrix: Matrix, scale: NDArray[np.floating[Any]]) -> Matrix:
    """Returns matrix · diag(scale), sharing the pattern."""
    return sparse.csr_array((matrix.data * scale[matrix.indices], matrix.indices, matrix.indptr), shape=matrix.shape)


def rows_of(values: NDArray[np.float32], columns: Nodes, num_nodes: int) -> Matrix:
    """Returns [B, N] with the values [B, n] in the columns [B, n]."""
    pointers = np.arange(len(values) + 1) * values.shape[1]
    return sparse.csr_array((values.reshape(-1), columns.reshape(-1), pointers), shape=(len(values), num_nodes))
