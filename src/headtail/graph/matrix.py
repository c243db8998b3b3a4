"""Rows of a graph as SciPy's sparse matrices, whose products are fast on a CPU."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from headtail.graph.csr import CSR

# Quoted, because older SciPy knows the type parameters only in its stubs.
Matrix: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"
Nodes = NDArray[np.int64]


def to_scipy(rows: CSR, dtype: DTypeLike = np.float64) -> Matrix:
    """Returns the pattern of rows as a matrix of ones."""
    columns, pointers = rows.col.cpu().numpy(), rows.row_ptr.cpu().numpy()
    if max(columns.size, rows.num_cols) < 2**31:
        # SciPy's kernels move half the memory with narrow indices, but it does not narrow them itself.
        columns, pointers = columns.astype(np.int32), pointers.astype(np.int32)
    return sparse.csr_array((np.ones(columns.size, dtype), columns, pointers), shape=(rows.num_rows, rows.num_cols))


def scale_columns(matrix: Matrix, scale: NDArray[np.floating[Any]]) -> Matrix:
    """Returns matrix · diag(scale), sharing the pattern."""
    return sparse.csr_array((matrix.data * scale[matrix.indices], matrix.indices, matrix.indptr), shape=matrix.shape)
